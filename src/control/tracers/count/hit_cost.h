/*
 * hit_cost.h - what a hit takes from the target, in ns of CPU time: an estimate.
 *
 * Trampolines are run and timed on this machine, by this process (trampoline/hit_timing.h). What
 * they leave to the agent or to others (strings, functions, lines) is a ratio to one reading of the
 * clock, which is measured, too. docs/architecture.md, "A budget", has how near that is.
 */
#ifndef DYNTRACE_HIT_COST_H
#define DYNTRACE_HIT_COST_H

#include "control/session/state/session_state.h"

struct hit_cost {
	double recorded, counted, off; /* ns, by level: enum tramp_switch; falling */
	double judged; /* beside `recorded`: counted before a filter decides, and its decision */
};

/* Times trampolines, once per process: some ms. Without it, or where it can't be done, costs are
 * ratios to a reading of the clock alone, of a program with many functions. */
void hit_cost_calibrate(void);
/* Of a hit of the tracepoint, while so many tracepoints are hit in turn. */
struct hit_cost hit_cost_of(const struct tracepoint *tracepoint, size_t spread);

/* Adds up numbers of hits, to tell how many tracepoints are hit in turn: those that have a share of
 * the hits. Call hit_cost_spread_add for each tracepoint, with the sum of all. */
void hit_cost_spread_add(size_t *spread, uint64_t hits, uint64_t sum);

#endif
