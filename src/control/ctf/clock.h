/*
 * clock.h - the TSC and wall-clock time.
 *
 * clock_start takes a first reading; each clock_refine takes another and estimates the frequency over the
 * whole span. Wall-clock time of a TSC value = offset_s + (offset + value) / frequency, as CTF has it.
 *
 * A wall clock that was set meanwhile (not just slewed) is not followed: the trace stays on the time it
 * began with. Never fails.
 */
#ifndef DYNTRACE_CTF_CLOCK_H
#define DYNTRACE_CTF_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct clock_estimate {
	uint64_t frequency; /* Hz */
	int64_t offset_s; /* CTF: time = offset_s + (offset + value) / frequency */
	uint64_t offset; /* in cycles */
	uint64_t first_tsc, first_ns; /* CLOCK_REALTIME at the first reading */
	uint64_t last_tsc, last_ns;
	uint64_t first_raw_tsc, first_raw, last_raw; /* CLOCK_MONOTONIC_RAW, to notice that somebody set the wall clock */
};

void clock_start(struct clock_estimate *clock); /* takes 20 ms for the first estimate unless the kernel tells it */
void clock_refine(struct clock_estimate *clock);
/* Does the kernel itself trust the TSC? */
bool clock_tsc_trusted(void);

#endif
