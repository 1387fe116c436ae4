/*
 * dispatch.h - tracepoints whose hits don't become events of the trace: what each tracer needs in
 * the target, and what it tells. Private to session/.
 */
#ifndef DYNTRACE_DISPATCH_H
#define DYNTRACE_DISPATCH_H

#include "control/stop/stop.h"
#include "control/tracers/code/call_code.h"
#include "control/tracers/count/counts.h"
#include "control/tracers/log/logfile.h"
#include "control/tracers/call/library.h"
#include "control/tracers/lttng/lttng.h"
#include "control/event/tracer.h"
#include "control/session/session.h"

struct tracepoint;
struct tracepoint_list;

/* A module that was looked at: does it use all of the vector registers (tracers/loading/wide.h)? */
struct tracers_module {
	uint64_t device, inode;
	bool is_wide;
};

/* What tracers have in the target. */
#define TRACERS_GATES 3 /* all vector registers, their lower halves, none */
#define TRACERS_PLAIN 3 /* events of LTTng for tracepoints without a name */
struct tracers {
	struct counts counts;
	struct load_paper paper;
	/* by which functions of others are called, registers saved */
	taddr gates_lttng[TRACERS_GATES - 1];
	struct lttng lttng;
	struct dt_bridge_result plain[TRACERS_PLAIN];
	VEC(struct logfile *) logs; /* by event_type.log - 1 */
	/* Functions of the user's: */
	struct dt_call_shared *calls; /* NULL: nothing of it is mapped */
	taddr shared_at, calls_at; /* those there; struct dt_calls */
	struct call_gate gates[TRACERS_GATES];
	taddr gates_at[TRACERS_GATES];
	uint32_t calls_used, programs_used;
	VEC(uint32_t) free_calls;
	VEC(struct library *) libraries;
	bool watches_actions;
	VEC(struct tracers_module) looked_at;
	uint64_t ended_ns; /* of CLOCK_MONOTONIC; 0: it goes on */
};

/* Can it be done at all for this request? Before anything is touched. */
struct error *tracers_check(const struct tracepoint_spec *spec, const struct tracer *tracer);

/* Are its arguments and results asked for? */
bool tracers_has_values(const struct tracepoint *tracepoint);

/* Are its exits counted by anybody? */
bool tracers_knows_exits(const struct tracepoint *tracepoint);

/* Does the list have events for the trace, or at least for the pool? */
bool tracers_has_trace(const struct tracepoint_list *list);
bool tracers_uses_pool(const struct tracepoint_list *list);
/* Is it placed, with that tracer? Is any of them? */
bool tracers_is(const struct tracepoint *tracepoint, enum tracer_kind kind);
bool tracers_uses(const struct tracepoint_list *list, enum tracer_kind kind);

/* Must something be mapped for them? Then by way of a held thread. */
bool tracers_wants(const struct tracepoint_list *list);
struct error *tracers_map(struct session *session, const struct tracepoint_list *list,
			  struct stop *stop);
/* Everything is mapped: tells each trampoline what to do. `held` as in session_begin. */
struct error *tracers_prepare(struct session *session, const struct tracepoint_list *list,
			      struct stop *held);

/* Its events of LTTng are forgotten; nothing of it is in the target's code any more. */
void lttng_tracer_forget(struct session *session, const struct tracepoint_list *list);
/* All that can be undone is; the process is quiet. What can't be goes to the summary. */
void tracers_leave(struct session *session, struct session_summary *summary);
/* Is a thread of the process in a function that a trampoline called? Then its return address is on
 * some stack. */
bool tracers_is_inside(const struct session *session, struct proc *proc);
/* Did tracers bring threads of their own, which a stop that was made before doesn't hold? */
bool tracers_has_threads(const struct session *session);

/* Where its lines go: for event_type.log. */
struct error *tracers_open_log(struct session *session, const struct tracepoint *tracepoint,
			       uint16_t *ret_log);
/* Lines of those that want some; then, when all that was there at that clock has been read, to
 * their files. */
void tracers_observe(struct session *session, const struct reader_batch *batch);
void tracers_flush_logs(struct session *session, uint64_t until, bool all);
/* Lines that nobody took. *ret_failed: errno of a file that can't be written; 0: none. */
uint64_t tracers_left_out(const struct session *session, int *ret_failed);

/* Which gate is enough in the tracepoint's module: 0 or 1, as TRACERS_GATES has them. */
size_t tracers_gate(struct session *session, const struct tracepoint *tracepoint);

/* lttng_tracer.c */
struct error *lttng_tracer_check_place(const struct tracepoint *tracepoint);
struct error *lttng_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				    struct stop *held);

/* What was counted in the target. */
bool tracers_counts(const struct session *session, const struct tracepoint *tracepoint,
		    struct counts_sum *ret_sum);
void tracers_times(const struct session *session, const struct counts_sum *sum,
		   struct tracepoint_times *ret_times);

/* Hits a second since it was placed, or until recording ended. */
double tracers_rate(const struct session *session, const struct tracepoint *tracepoint,
		    uint64_t hits);
void tracers_placed(const struct tracepoint_list *list);
void tracers_ended(struct session *session);

void tracers_free(struct session *session);

#endif
