/*
 * clock.h - the TSC and wall-clock time.
 *
 * clock_start takes a first reading; each clock_refine takes another and estimates the frequency over the
 * whole span. time of a TSC value = offset_ns + (tsc - 0) / frequency.
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
};

void clock_start(struct clock_estimate *clock); /* takes 20 ms for the first estimate unless the kernel tells it */
void clock_refine(struct clock_estimate *clock);
/* Does the kernel itself trust the TSC? */
bool clock_tsc_trusted(void);

#endif
