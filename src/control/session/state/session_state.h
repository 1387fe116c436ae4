/*
 * session_state.h - the state of a session that its parts share.
 *
 * State of one file or one folder is that file's own struct, behind a pointer. session_create makes
 * these parts, session_destroy frees them.
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

/* Probes of dyntrace's own, which record nothing. */
struct own_probes {
	struct probe **items;
	size_t count, room;
};

/* A dead controller's sites, found in the target (takeover/); its session has no planner. */
struct found_sites {
	struct patch_site *items; /* NULL: none were looked for */
	size_t count;
	size_t own; /* sites among them whose probes were the controller's own */
};

/*
 * A room above session/ that takes part in the life of a session: follow_exec/, takeover/, budget/.
 * Functions that a guest doesn't need are NULL.
 */
struct session_guest {
	void (*step)(struct session *session, uint64_t now_ns);
	void (*modules_changed)(struct session *session);
	/* Before new sites are placed: adds sites to take out in the same stop. May reallocate the
	 * list. */
	struct error *(*join)(struct session *session, struct patch_site ***patches, size_t *count);
	/* Before the session detaches from the target. */
	void (*end)(struct session *session, struct session_summary *summary);
	void (*free)(struct session *session);
};
#define SESSION_GUESTS 3

struct session {
	/* NULL, or the session whose trace and buffers this one uses (F1) */
	struct session *parent;
	/* dt_control.program: 0, or of an exec session its number; of a parent: numbers so far */
	uint32_t program, programs;
	struct proc *proc;
	struct session_options options;
	bool begun;
	bool stopped; /* recording is off for all tracepoints */
	bool placed; /* the target's text holds our jumps */
	bool sees_exec; /* own_probes has a probe on execve */
	bool wants_unwind; /* some event has a backtrace */
	bool told_unlisted; /* that a tracer doesn't record elements of containers */
	uint64_t fencing_next; /* when a filter that came while it is traced is judged; ns */
	unsigned fencing_tries; /* that failed */
	uint64_t heap_due; /* when Go's heap may be looked at again; ns */
	unsigned fencing_looks; /* left at children that may have taken up a filter */
	char no_lines[96]; /* what its filter does to lines at the hit (fence_describe); "": nothing */
	bool has_front_guards; /* fronts_add_guards has found each rt_sigaction */
	bool fronts_due; /* the target's handlers have none of ours in front yet (H42) */
	bool wants_loads; /* some event reads memory (X3) */
	bool refuses_loads; /* plain loads aren't safe in this process */
	VEC(taddr) handlers_due; /* handlers that want a probe of ours for plain loads (X6) */
	bool loads_due; /* a thread was where it mustn't be when plain loads were to begin */
	unsigned loads_tries; /* to begin them later, or after a new handler */
	uint64_t loads_next; /* when the next try may be; ns */

	/* Tracepoints and their sites. */
	VEC(struct request *) requests; /* added before session_begin */
	struct tracepoint_list tracepoints;
	struct tracepoint_list retired; /* removed tracepoints whose code may still run */
	struct own_probes own_probes;
	struct modules modules;
	struct modules gone; /* unloaded modules that something still points to */
	struct planner *planner;
	struct near_pool *code;
	/* sites out of the target's code, whose trampolines may still run */
	struct site_list garbage;
	struct found_sites found;

	/* Events. */
	/* event types of the placed tracepoints: `own_types`, or those of `parent` */
	struct event_types *types;
	struct event_types own_types;
	bool types_announced; /* the metadata has all types */
	VEC(uint32_t) unused_ids; /* ids of types under which nothing records */
	size_t counters; /* entries of dt_pool.counters ever used */
	VEC(uint32_t) free_counters; /* entries among them that are free again */

	/* The trace. */
	struct agent *agent;
	struct clock_estimate clock;
	struct trace_writer *writer;
	/* a dead controller's trace; `writer` writes the next part of it */
	struct trace_writer *reopened;
	struct reader *reader;
	struct reader_pauses pauses; /* times in which recording was stopped */
	struct latency latency;
	char *command_line;
	uint64_t stopped_us; /* the longest stop of the target */
	uint64_t ended_ns; /* of CLOCK_MONOTONIC; 0: recording goes on */
	uint64_t begun_ns; /* likewise: before the first placing */
	uint64_t paused_ns; /* likewise: when recording was stopped last */
	uint64_t recorded_since, recorded; /* TSC cycles: last begin; times before it, added up */
	/* A guest wants a step by then; ns of CLOCK_MONOTONIC; 0: none does. */
	uint64_t step_by;
	/* With a budget: processes that have recorded, and the share of CPU time that tracing took
	 * lately, by estimate; the number of tracepoints that were hit in turn (hit_cost.h). */
	VEC(pid_t) processes;
	double overhead;
	double cost_scale; /* what all hits cost, as a multiple of what was timed; 0: unknown */
	bool cost_measured; /* struct tracepoint_info */
	size_t spread;
	/* NULL, or called when all probes are out and the pool is still mapped */
	struct error *(*quiet)(struct session *session);

	const struct session_guest *guests[SESSION_GUESTS]; /* the first NULL ends the list */

	/* Parts, each with the file or folder that owns it. */
	struct budget *budget; /* session/budget */
	struct call_tracer *call; /* tracers/call */
	struct sync_tracer *sync; /* tracers/sync */
	struct children *children; /* session/processes/children.c */
	struct collection *collection; /* session/garbage.c */
	struct count_tracer *count; /* tracers/count */
	struct exits *exits; /* exits/ */
	struct follow *follow; /* session/follow_exec/follow_exec.c */
	struct library_notice *notice; /* session/own_probes/library_notice.c */
	struct thread_table *threads; /* session/processes/thread_liveness.c */
	struct loading *loading; /* tracers/loading */
	struct log_tracer *log; /* tracers/log */
	struct lttng_tracer *lttng; /* tracers/lttng */
	struct process_lookup *lookup; /* session/processes/process_lookup.c */
	struct process_names *names; /* session/processes/process_names.c */
	struct naming *naming; /* session/tracepoints.c */
	struct old_counts *old_counts; /* session/takeover/old_counts.c; NULL: none */
	struct old_probes *old_probes; /* session/takeover/old_probes.c; NULL: none */
	struct placing *placing; /* session/place.c */
	struct recording *recording; /* session/recording.c */
	struct site_notes *site_notes; /* session/memory/site_notes.c */
	struct traps *traps; /* session/own_probes/traps.c */
	struct unwinding *unwinding; /* session/own_probes/unwinding.c */
	struct wake *wake; /* session/wake.c; NULL: session_fd was never called */
};

/* Adds a guest; again: no effect. */
void session_invite(struct session *session, const struct session_guest *guest);
void session_notify(const struct session *session, enum session_notice notice, const char *text);
/* Hands a line for the user to session_options.tell. */
void session_tell(const struct session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* May a request have no place in one of the session's programs? */
bool session_may_lack(const struct session *session);
/* Does the process still map our code? Not after execve. False if nobody can tell. */
bool session_has_code(const struct session *session, struct proc *proc);
/* session_has_code, but true if nobody can tell: code that may be there is treated as if it were
 * (H32). */
bool session_may_have_code(const struct session *session, struct proc *proc);
/* Writes the sizes of new event types for the agent's slow path. */
void session_note_sizes(const struct session *session);

#endif
