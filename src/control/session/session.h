/*
 * session.h - one target, its tracepoints, its trace.
 *
 *	session_create		nothing is touched yet
 *	session_add		what to trace, as the user named it
 *	session_resolve		names to places; nothing is touched yet
 *	session_begin		the trace's directory, the agent, the probes: from here on it records
 *	session_step		again and again, until session_ended or the user has had enough
 *	session_end		the target is as it was found, the trace is complete
 *
 * One thread uses a session (ptrace wants that). Prints nothing.
 */
#ifndef DYNTRACE_SESSION_SESSION_H
#define DYNTRACE_SESSION_SESSION_H

#include "../ctf/clock.h"
#include "../inject/inject.h"
#include "../record/reader.h"

/* What happens when the buffers are full. */
enum session_mode {
	SESSION_DISCARD, /* events are lost, and counted */
	SESSION_OVERWRITE, /* the oldest make room; written at the end and by session_snapshot */
	SESSION_BLOCK, /* threads wait for room, for a bounded time */
};

#define SESSION_BLOCK_MS 10000

struct session_options {
	const char *output; /* the trace's directory, which must not exist */
	uint64_t buffer_size;
	bool follow_fork;
	enum session_mode mode;
	unsigned block_ms; /* SESSION_BLOCK: how long a thread waits; 0: SESSION_BLOCK_MS */
	unsigned flush_ms; /* how long an event may wait until it is written; 0: a moment */
	reader_observe_fn observe; /* NULL, or told of all that is written */
	void *observe_context;
	uint32_t string_max; /* bytes of a string that are recorded; 0: the default */
	const char *const *contexts; /* TYPEs that every event gets; borrowed */
	size_t context_count;
	uint64_t every, first, rate; /* which hits of each tracepoint are recorded (trampoline.h); 0: all */
	const char *filter; /* record only what this is true for; NULL: all */
};

enum tracepoint_kind {
	TRACEPOINT_BARE, /* NAME: the hit alone */
	TRACEPOINT_ENTRY, /* NAME_entry: arg0 to arg5 */
	TRACEPOINT_FUNCTION, /* NAME_entry, and NAME_exit: ret, duration */
};

/* Durations of a function's calls, as far as their exits were read; ns. */
struct tracepoint_times {
	uint64_t calls;
	uint64_t total, self, max;
	uint64_t p50, p90, p99; /* within 1.6% */
	bool self_known; /* all its calls were properly nested */
};

/* What the user sees of a tracepoint. */
struct tracepoint_info {
	const char *name;
	taddr address;
	const char *how; /* "jump", "evict", "pun", "removed"; NULL: refused */
	const char *refusal; /* why; NULL: placed */
	uint64_t hits, lost;
	/* With exits: */
	bool has_exit;
	const char *exit_refusal; /* why there is none, although it was asked for; NULL: there is */
	uint64_t exits, exits_lost;
	uint64_t unwound; /* calls that ended without returning */
	uint64_t missed; /* calls that may have returned: there was no return stub for them */
	uint64_t inside; /* calls that had not returned when recording ended */
	struct tracepoint_times times;
};

struct session_summary {
	struct reader_totals totals;
	bool left; /* something had to stay in the target: `why` */
	char why[256];
};

struct session;

/* The process is borrowed. */
struct error *session_create(struct proc *proc, const struct session_options *options,
			     struct session **ret_session);
void session_destroy(struct session *session);

/* Parses a LOC. */
struct error *session_add(struct session *session, const char *location, enum tracepoint_kind kind);

/* Finds all that was added, in the modules the process has now. Can be called again when it has more. */
struct error *session_resolve(struct session *session);

/* Exits in a static program whose unwinder must be told of them: that works from its main on. Where that is; 0: nothing is
 * in the way. After session_resolve. */
taddr session_exits_from(struct session *session);

/* Is any of what was added in a module that is neither the program nor there only later: the loader? */
bool session_names_loader(const struct session *session);

/* `held`: NULL, or a stop that holds every thread already. A place that was named and can't be probed is an
 * error; of those that a glob matched the others are probed. On failure nothing stays behind. */
struct error *session_begin(struct session *session, struct stop *held);

/* Waits for events, at most that long, and writes what there is. */
struct error *session_step(struct session *session, unsigned timeout_ms);

/* In overwrite mode: writes what the buffers hold to a trace of its own, and goes on. The directory must not exist. */
struct error *session_snapshot(struct session *session, const char *output, struct reader_totals *ret_totals);

/* What events look like, and when they were: for who observes. */
const struct event_types *session_types(const struct session *session);
const struct clock_estimate *session_clock(const struct session *session);

/* Has the target ended? */
bool session_ended(const struct session *session);

/* Takes everything out of the target and its forked children, if they live, and completes the trace. */
struct error *session_end(struct session *session, struct session_summary *ret_summary);

/* The longest that the target stood still when the probes were placed, in microseconds. */
uint64_t session_stopped_us(const struct session *session);

/* Switches the recording of one tracepoint, in the target and its children. No thread is stopped. */
void session_switch(struct session *session, size_t index, bool on);

/* Takes one tracepoint out of the target's code, and puts it back, at any moment while it records. Its memory is used
 * again once nobody can be in it, in no process. What was removed stays in the list. */
struct error *session_remove(struct session *session, size_t index);
struct error *session_put_back(struct session *session, size_t index);

/* Bytes of trampolines in the target, those that wait for their end included. */
uint64_t session_code_used(const struct session *session);

size_t session_tracepoint_count(const struct session *session);
struct tracepoint_info session_tracepoint(const struct session *session, size_t index);

/* libdyntrace-agent.so: $DYNTRACE_AGENT, beside the program, or in ../lib/dyntrace. Caller frees. */
struct error *agent_find(char **ret_path);

#endif
