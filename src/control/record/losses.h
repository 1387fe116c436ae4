/*
 * losses.h - how many hits can have been lost?
 *
 * The target counts its losses in memory that it can write. A count is believed up to what all
 * processors could have lost in the time there was; what goes beyond is damage, and is told.
 */
#ifndef DYNTRACE_LOSSES_H
#define DYNTRACE_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

/* The least time that a lost hit takes: it reads the clock and looks for a chunk. */
#define LOSSES_NS 2u

struct losses {
	uint64_t since; /* ns of CLOCK_MONOTONIC: no hit was before */
	uint64_t believed; /* so far */
	bool damaged; /* a count went beyond */
};

/* The most hits that can have been lost since then. */
uint64_t losses_possible(uint64_t since);
/* The counter was at `from`, and is at `to`: the value to believe. */
uint64_t losses_believe(struct losses *losses, uint64_t from, uint64_t to);

#endif
