/*
 * budget_state.h - what the files of session/budget share.
 */
#ifndef DYNTRACE_BUDGET_STATE_H
#define DYNTRACE_BUDGET_STATE_H

#include "budget.h"
#include "budget_choice.h"
#include "budget_scale.h"
#include "control/proc/cpu_samples.h"
#include "control/session/state/session_state.h"
#include "control/tracers/count/demotion.h"
#include "control/tracers/count/hit_cost.h"

#define BUDGET_IDLE_CPU 0.1 /* processors: a target that uses less counts as if it used so much */

struct tracepoint_step {
	struct tracepoint *tracepoint;
	enum tramp_switch to;
};

/* CPU time of a process at the begin of this look and the one before; ns; 0: unknown. */
struct budget_cpu {
	uint64_t now, before;
};

struct budget {
	uint64_t looked; /* ns of CLOCK_MONOTONIC: the last look */
	uint64_t changed; /* the last time that levels were */
	uint64_t peeked; /* the last time that those that are off were counted */
	bool peeks; /* they are now, until the next look */
	uint64_t peaks_since; /* when struct demotion.peak was begun */
	bool new_peaks; /* this look begins another */
	struct budget_cpu *cpu; /* by session->processes */
	size_t cpu_count;
	double own; /* ns: CPU time that the target used for itself before the last look */
	double busy, busy_before; /* processors that the target used at most: in the last seconds */
	/* Of budget_out.c: when some were taken out last; when to ask which can come back. */
	uint64_t out_at, back_at;
	/* Of budget_measure.c. Costs are as timed. */
	struct budget_scale scale;
	struct budget_span look; /* since the last look */
	struct budget_span span, span_before; /* since the last change of levels; before it */
	uint64_t changed_at; /* begin of the change that is being measured; 0: none */
	uint64_t measured; /* the last look */
	bool settles; /* levels have changed since the last look */
	struct budget_pace *paces; /* room */
	struct cpu_samples *samples; /* that are being taken; NULL: none */
	uint64_t samples_at; /* when to take the next ones */
	uint32_t sampled; /* how often samples were taken */
	bool no_samples; /* that isn't allowed */
	uint32_t type; /* of the steps' events; 0: none */
	struct budget_item *items;
	struct tracepoint **tracepoints; /* of these items */
	uint64_t *hits; /* of these, since the last look; of those that are off, by estimate */
	size_t count, room;
	VEC(struct tracepoint_step) steps;
};

/* Before hits are read: notes the CPU times. False: out of memory. */
bool budget_look_begin(struct session *session, struct budget *budget);
/* Computes what the hits of the last `ns` have cost, and rates. False: out of memory. */
bool budget_look(struct session *session, struct budget *budget, uint64_t ns);
/* The cost of a hit in this target. */
struct hit_cost budget_hit_cost(const struct session *session, const struct tracepoint *tracepoint);
/* The cost of the hits of tracepoints that are off, and still in the code, in ns per second. */
double budget_off_cost(const struct session *session, const struct budget *budget);

/* Between a look and what is decided: compares what the target got done before and after the last
 * change. */
void budget_measure_look(struct session *session, struct budget *budget, uint64_t now);
/* Levels have changed, or tracepoints have come or gone. */
void budget_measure_change(const struct session *session, struct budget *budget, uint64_t now);

/* At each look: reads samples, and learns from them what hits cost at least. */
void budget_measure_sample(struct session *session, struct budget *budget, uint64_t now);

#define BUDGET_OUT_MAX 1024 /* per stop */

/* Lists tracepoints that are off and still in the code, the most frequent first; or out of it, the
 * most frequent last. At most BUDGET_OUT_MAX of them. */
void budget_out_list(const struct session *session, bool is_out, struct tracepoint_list *ret_list);
/* Takes so many out of the code that this much is saved, in ns per second. */
void budget_out_take(struct session *session, struct budget *budget, double excess, uint64_t now);
/* Puts those back whose hits fit into `room`, ns per second, while they are off; if it is time. */
void budget_out_back(struct session *session, struct budget *budget, double room, uint64_t now);
/* The rate that one is expected to have, if it is put back now. */
double budget_out_expected(const struct budget *budget, const struct demotion *demotion,
			   uint64_t now);

/* Writes the steps to the trace, and forgets them. */
struct error *budget_steps_write(struct session *session, struct budget *budget);

#endif
