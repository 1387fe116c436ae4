/*
 * session_state.h - a session from the inside: what its parts share.
 *
 * Each part that one file or one folder looks after is that one's own struct, behind a pointer.
 * session_create makes all of them, session_destroy frees them.
 */
#ifndef DYNTRACE_SESSION_STATE_H
#define DYNTRACE_SESSION_STATE_H

#include "control/agent/agent.h"
#include "control/code/near.h"
#include "control/ctf/clock.h"
#include "control/ctf/writer.h"
#include "control/record/latency.h"
#include "session_options.h"
#include "tracepoint_state.h"

struct session;

/* Probes of our own, which record nothing. */
struct own_probes {
	struct probe **items;
	size_t count, room;
};

/* Another controller's sites, found in the target, instead of a planner's (takeover/). */
struct found_sites {
	struct patch_site *items; /* NULL: none were looked for */
	size_t count;
	size_t own; /* of those, probes that the user didn't ask for */
};

/*
 * A room above session/ that takes part in the life of a session: one that follows execve, one that
 * takes over from a dead controller. A function that it doesn't need is NULL.
 */
struct session_guest {
	void (*step)(struct session *session, uint64_t now_ns);
	void (*modules_changed)(struct session *session);
	/* Before new sites are placed: adds sites that go in the same stop. The list may be another
	 * one afterwards. */
	struct error *(*join)(struct session *session, struct patch_site ***patches, size_t *count);
	/* Before the target is left. */
	void (*end)(struct session *session, struct session_summary *summary);
	void (*free)(struct session *session);
};
#define SESSION_GUESTS 2

struct session {
	/* NULL, or the session whose trace and buffers this one uses (F1) */
	struct session *parent;
	struct proc *proc;
	struct session_options options;
	bool begun;
	bool stopped; /* recording as a whole is off */
	bool placed; /* the target's text holds our jumps */
	bool sees_exec; /* one of own_probes asks before execve */
	bool wants_unwind; /* some event has a backtrace */

	/* Tracepoints, and what they are made of. */
	VEC(struct request *) requests; /* noted before session_begin */
	struct tracepoint_list tracepoints;
	struct tracepoint_list retired; /* removed; the code that their probes describe isn't yet */
	struct own_probes own_probes;
	struct modules modules;
	struct planner *planner;
	struct near_pool *code;
	/* sites out of the target's code, whose memory may not be used again yet */
	struct site_list garbage;
	struct found_sites found;

	/* Events. */
	/* kinds of events of the placed tracepoints: `own_types`, or those of `parent` */
	struct event_types *types;
	struct event_types own_types;
	bool types_announced; /* the metadata has all types */
	VEC(uint32_t) unused_ids; /* of types: nothing records under them */
	size_t counters; /* of dt_pool.counters ever used */
	VEC(uint32_t) free_counters; /* of those, not in use */

	/* The trace. */
	struct agent *agent;
	struct clock_estimate clock;
	struct trace_writer *writer;
	/* a dead controller's trace: `writer`'s is a part behind it */
	struct trace_writer *reopened;
	struct reader *reader;
	struct reader_pauses pauses; /* while recording was stopped */
	struct latency latency;
	char *command_line;
	uint64_t stopped_us; /* the longest that the target stood still */
	uint64_t ended_ns; /* of CLOCK_MONOTONIC, when recording ended; 0: it goes on */
	/* NULL, or called when all probes are gone and the pool is still there */
	struct error *(*quiet)(struct session *session);

	const struct session_guest *guests[SESSION_GUESTS]; /* NULL: none, and no more */

	/* Parts, each of the file or folder that is named. */
	struct call_tracer *call; /* tracers/call */
	struct change *change; /* session/change.c */
	struct children *children; /* session/processes/children.c */
	struct count_tracer *count; /* tracers/count */
	struct exits *exits; /* exits/ */
	struct follow *follow; /* session/follow_exec/follow_exec.c */
	struct library_notice *notice; /* session/own_probes/library_notice.c */
	struct loading *loading; /* tracers/loading */
	struct log_tracer *log; /* tracers/log */
	struct lttng_tracer *lttng; /* tracers/lttng */
	struct naming *naming; /* session/tracepoints.c */
	struct old_counts *old_counts; /* session/takeover/old_counts.c; NULL: none */
	struct old_probes *old_probes; /* session/takeover/old_probes.c; NULL: nothing is inherited */
	struct placing *placing; /* session/place.c */
	struct recording *recording; /* session/recording.c */
	struct traps *traps; /* session/own_probes/traps.c */
	struct unwinding *unwinding; /* session/own_probes/unwinding.c */
	struct wake *wake; /* session/wake.c; NULL: nobody asked for session_fd */
};

/* From now on the guest takes part. Once per guest. */
void session_invite(struct session *session, const struct session_guest *guest);
void session_notify(const struct session *session, enum session_notice notice, const char *text);
/* Is --follow-exec wanted, and can threads that call execve be found? Not by the ids of another pid
 * namespace. */
bool session_can_follow(const struct session *session);
/* Does the process still have our code where we put it? Not after execve. */
bool session_has_code(const struct session *session, struct proc *proc);
/* Notes for the agent's slow path how large events of new kinds are. */
void session_note_sizes(const struct session *session);

#endif
