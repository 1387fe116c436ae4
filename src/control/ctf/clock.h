/*
 * clock.h - the TSC and wall-clock time.
 *
 * clock_start takes a first reading; each clock_refine takes another and estimates the frequency
 * over the whole span. Wall-clock time of a TSC value = offset_s + (offset + value) / frequency, as
 * CTF has it. So the first and the last reading are right, and what lies between is as far off as
 * the wall clock was slewed unevenly.
 *
 * A wall clock that was set meanwhile, not just slewed, is not followed: the trace stays on the
 * time it began with. Never fails.
 */
#ifndef DYNTRACE_CLOCK_H
#define DYNTRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Each clock has its own reading of the TSC: between the two this thread may have waited for a CPU. */
struct clock_reading {
	uint64_t tsc, wall_ns; /* CLOCK_REALTIME */
	uint64_t raw_tsc, raw_ns; /* CLOCK_MONOTONIC_RAW */
};

struct clock_estimate {
	uint64_t frequency; /* Hz */
	int64_t offset_s; /* CTF: time = offset_s + (offset + value) / frequency */
	uint64_t offset; /* in cycles */
	struct clock_reading first, last;
	int64_t set_ns; /* by how much the wall clock was set since the first reading */
};

void clock_start(struct clock_estimate *clock); /* takes 20 ms for the first estimate */
void clock_refine(struct clock_estimate *clock);

/* The same with readings of the caller's. Between two of them a second or more has passed, and a
 * minute at most: a clock that was set is told from one that was slewed by how much it went astray
 * since the last. */
void clock_begin(struct clock_estimate *clock, const struct clock_reading *first,
		 const struct clock_reading *second);
void clock_note(struct clock_estimate *clock, const struct clock_reading *reading);

/* Does the kernel itself trust the TSC? `path`: the list of clocks it could use; NULL: the kernel's
 * own. */
bool clock_tsc_trusted(const char *path);

#endif
