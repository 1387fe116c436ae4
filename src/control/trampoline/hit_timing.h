/*
 * hit_timing.h - what a hit costs here: trampolines as a target gets them, run and timed in this
 * process.
 *
 * A hit costs more the more tracepoints are hit in turn: trampolines share the processor's caches
 * and branch predictors with the program. So functions with some code of their own are called in a
 * random order, once with trampolines and once without, for several numbers of them.
 *
 * Takes some ms of CPU time. Not to be called by two threads at once.
 */
#ifndef DYNTRACE_HIT_TIMING_H
#define DYNTRACE_HIT_TIMING_H

#include <stdbool.h>

/* ns per hit, beyond the call itself. */
struct hit_timing {
	double bare; /* an entry with two words, recorded */
	double pair; /* the same, and the exit */
	double counted; /* SWITCH_COUNTED */
	double off;
};

/* Numbers of functions that are hit in turn, for which hits are timed. */
#define HIT_TIMING_SPREADS 4
extern const unsigned hit_timing_spreads[HIT_TIMING_SPREADS];

/* Takes differences away that can't be: a hit isn't cheaper where more functions are hit. */
void hit_timing_level(struct hit_timing timings[HIT_TIMING_SPREADS]);
/* False: it can't be measured here (no memory, or none that may be executed). */
bool hit_timing_measure(struct hit_timing ret_timings[HIT_TIMING_SPREADS]);

#endif
