/*
 * hit_cost.h - what a hit takes from the target, in ns of CPU time: an estimate.
 *
 * The unit is one reading of the clock, measured on this machine. The rest are ratios to it, which
 * bench/run has measured in a loop, times a factor for real programs: caches and branch predictors
 * are small, and new pages of the pool cost faults (docs/architecture.md, "A budget").
 */
#ifndef DYNTRACE_HIT_COST_H
#define DYNTRACE_HIT_COST_H

#include "control/session/state/session_state.h"

/* Of a hit while its tracepoint is off, in readings of the clock. */
#define HIT_COST_OFF 0.5

struct hit_cost {
	double recorded, counted, off; /* ns, by level: enum tramp_switch */
};

/* Measured once per process. */
double hit_cost_clock_ns(void);
struct hit_cost hit_cost_of(const struct tracepoint *tracepoint);
/* By level. */
double hit_cost_at(const struct hit_cost *cost, enum tramp_switch level);

#endif
