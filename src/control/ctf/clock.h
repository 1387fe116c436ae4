/*
 * clock.h - from TSC values to wall-clock time.
 *
 * clock_start takes a first reading; each clock_refine takes another and estimates the frequency
 * over the whole span. Wall-clock time of a TSC value = offset_s + (offset + value) / frequency, as
 * CTF defines it. So the first and the last reading are right, and values between them are as far
 * off as the wall clock was slewed unevenly.
 *
 * If the wall clock is set meanwhile, not just slewed, the trace stays on the time it began with.
 * Never fails.
 */
#ifndef DYNTRACE_CLOCK_H
#define DYNTRACE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Each clock has its own reading of the TSC: this thread may wait for a CPU between the two. */
struct clock_reading {
	uint64_t tsc, wall_ns; /* CLOCK_REALTIME */
	uint64_t raw_tsc, raw_ns; /* CLOCK_MONOTONIC_RAW */
};

struct clock_estimate {
	uint64_t frequency; /* Hz */
	int64_t offset_s; /* CTF: time = offset_s + (offset + value) / frequency */
	uint64_t offset; /* in cycles */
	struct clock_reading first, last;
	int64_t set_ns; /* steps of the wall clock since the first reading, added up */
};

void clock_start(struct clock_estimate *clock); /* takes 20 ms for the first estimate */
void clock_refine(struct clock_estimate *clock);

/* Estimates by the caller's readings. Between two of them a second to a minute has passed: a step
 * of the clock is told from slewing by its deviation since the last reading. */
void clock_begin(struct clock_estimate *clock, const struct clock_reading *first,
		 const struct clock_reading *second);
void clock_note(struct clock_estimate *clock, const struct clock_reading *reading);

/* The wall-clock time of a TSC value, in ns since the epoch, rounded as libbabeltrace2 rounds: what
 * is printed while it is recorded is what its readers print. */
int64_t clock_wall_ns(const struct clock_estimate *clock, uint64_t tsc);

/* Does the kernel itself trust the TSC? `path`: file with the list of usable clocks; NULL: the
 * kernel's own. */
bool clock_tsc_trusted(const char *path);

#endif
