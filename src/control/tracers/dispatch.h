/*
 * dispatch.h - tracepoints whose hits don't become events of the trace: what each tracer needs in
 * the target, and what it tells. Private to session/.
 */
#ifndef DYNTRACE_DISPATCH_H
#define DYNTRACE_DISPATCH_H

#include "control/stop/stop.h"
#include "control/codegen/call_code.h"
#include "control/tracers/count/counts.h"
#include "control/tracers/log/logfile.h"
#include "control/tracers/call/library.h"
#include "control/tracers/lttng/lttng.h"
#include "control/event/tracer.h"
#include "control/session/session.h"

struct tracepoint;
struct tracepoint_list;

/* A module that was looked at: does it use all of the vector registers (tracers/loading/wide.h)? */
struct tracing_module {
	uint64_t device, inode;
	bool is_wide;
};

/* What tracers have in the target. */
#define TRACING_GATES 3 /* all vector registers, their lower halves, none */
#define TRACING_PLAIN 3 /* events of LTTng for tracepoints without a name */
struct tracing {
	struct counts counts;
	struct load_paper paper;
	/* by which functions of others are called, registers saved */
	taddr gates_lttng[TRACING_GATES - 1];
	struct lttng lttng;
	struct dt_bridge_result plain[TRACING_PLAIN];
	VEC(struct logfile *) logs; /* by event_type.log - 1 */
	/* Functions of the user's: */
	struct dt_call_shared *calls; /* NULL: nothing of it is mapped */
	taddr shared_at, calls_at; /* those there; struct dt_calls */
	struct call_gate gates[TRACING_GATES];
	taddr gates_at[TRACING_GATES];
	uint32_t calls_used, programs_used;
	VEC(uint32_t) free_calls;
	VEC(struct library *) libraries;
	bool watches_actions;
	VEC(struct tracing_module) looked_at;
	uint64_t ended_ns; /* of CLOCK_MONOTONIC; 0: it goes on */
};

/* Can it be done at all for this request? Before anything is touched. */
struct error *tracing_check(const struct tracepoint_spec *spec, const struct tracer *tracer);

/* Are its arguments and results asked for? */
bool tracing_has_values(const struct tracepoint *tracepoint);

/* Are its exits counted by anybody? */
bool tracing_knows_exits(const struct tracepoint *tracepoint);

/* Does the list have events for the trace, or at least for the pool? */
bool tracing_has_trace(const struct tracepoint_list *list);
bool tracing_uses_pool(const struct tracepoint_list *list);
/* Is it placed, with that tracer? Is any of them? */
bool tracing_is(const struct tracepoint *tracepoint, enum tracer_kind kind);
bool tracing_uses(const struct tracepoint_list *list, enum tracer_kind kind);

/* Must something be mapped for them? Then by way of a held thread. */
bool tracing_wants(const struct tracepoint_list *list);
struct error *tracing_map(struct session *session, const struct tracepoint_list *list,
			  struct stop *stop);
/* Everything is mapped: tells each trampoline what to do. `held` as in session_begin. */
struct error *tracing_prepare(struct session *session, const struct tracepoint_list *list,
			      struct stop *held);

/* Its events of LTTng are forgotten; nothing of it is in the target's code any more. */
void tracing_forget(struct session *session, const struct tracepoint_list *list);
/* All that can be undone is; the process is quiet. What can't be goes to the summary. */
void tracing_leave(struct session *session, struct session_summary *summary);
/* Is a thread of the process in a function that a trampoline called? Then its return address is on
 * some stack. */
bool tracing_is_inside(const struct session *session, struct proc *proc);
/* Did tracers bring threads of their own, which a stop that was made before doesn't hold? */
bool tracing_has_threads(const struct session *session);

/* Where its lines go: for event_type.log. */
struct error *tracing_open_log(struct session *session, const struct tracepoint *tracepoint,
			       uint16_t *ret_log);
/* Lines of those that want some; then, when all that was there at that clock has been read, to
 * their files. */
void tracing_observe(struct session *session, const struct reader_batch *batch);
void tracing_flush_logs(struct session *session, uint64_t until, bool all);
/* Lines that nobody took. *ret_failed: errno of a file that can't be written; 0: none. */
uint64_t tracing_left_out(const struct session *session, int *ret_failed);

/* Which gate is enough in the tracepoint's module: 0 or 1, as TRACING_GATES has them. */
size_t tracing_gate(struct session *session, const struct tracepoint *tracepoint);

/* lttng_tracer.c */
struct error *tracing_check_place(const struct tracepoint *tracepoint);
struct error *tracing_prepare_lttng(struct session *session, const struct tracepoint_list *list,
				    struct stop *held);

/* What was counted in the target. */
bool tracing_counts(const struct session *session, const struct tracepoint *tracepoint,
		    struct counts_sum *ret_sum);
void tracing_times(const struct session *session, const struct counts_sum *sum,
		   struct tracepoint_times *ret_times);

/* Hits a second since it was placed, or until recording ended. */
double tracing_rate(const struct session *session, const struct tracepoint *tracepoint,
		    uint64_t hits);
void tracing_placed(const struct tracepoint_list *list);
void tracing_ended(struct session *session);

void tracing_free(struct session *session);

#endif
