/*
 * distribution.h - how the values of many calls are distributed: count, sum, smallest, largest,
 * percentiles, histogram. Values have a sign.
 *
 * Log-linear (histogram.h), in memory that grows with the spread of the values, not with their
 * number. Begins with all zero. Pure bookkeeping.
 */
#ifndef DYNTRACE_DISTRIBUTION_H
#define DYNTRACE_DISTRIBUTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "histogram.h"

#define DISTRIBUTION_BITS 5u /* 32 steps per power of two: within 1.6% of the true value */

#define DISTRIBUTION_STEPS (1u << DISTRIBUTION_BITS)
#define DISTRIBUTION_ROWS 60u

struct distribution_half {
	/* DISTRIBUTION_STEPS counts each; NULL: none of its values came */
	uint64_t *rows[DISTRIBUTION_ROWS];
};

struct distribution {
	uint64_t count;
	int64_t sum; /* wraps */
	int64_t min, max; /* of no values: 0 */
	struct distribution_half *halves[2]; /* values from 0 on, and below; NULL: none */
};

/* The count of a bucket, whose row is made first if it isn't there; NULL: out of memory. */
uint64_t *distribution_cell(struct distribution *distribution, bool is_negative, uint32_t bucket);

/* Adds a value so many times; false: out of memory, and nothing was added. Inline: the reader adds
 * each call. */
static inline bool distribution_add(struct distribution *distribution, int64_t value,
				    uint64_t times)
{
	uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	uint32_t bucket = histogram_bucket(magnitude, DISTRIBUTION_BITS);
	const struct distribution_half *half = distribution->halves[value < 0];
	uint64_t *row = half ? half->rows[bucket / DISTRIBUTION_STEPS] : NULL;
	uint64_t *cell = row ? row + bucket % DISTRIBUTION_STEPS :
			       distribution_cell(distribution, value < 0, bucket);

	if (!cell)
		return false;
	*cell += times;
	if (!distribution->count || value < distribution->min)
		distribution->min = value;
	if (!distribution->count || value > distribution->max)
		distribution->max = value;
	distribution->count += times;
	distribution->sum = (int64_t)((uint64_t)distribution->sum + (uint64_t)value * times);
	return true;
}

/* Adds all values of another one; false: out of memory, and nothing was added. */
bool distribution_merge(struct distribution *distribution, const struct distribution *other);
void distribution_free(struct distribution *distribution);

/* 0: no values. */
int64_t distribution_mean(const struct distribution *distribution);
/* The value below or at which `share` of all values lie; 0: no values. */
int64_t distribution_quantile(const struct distribution *distribution, double share);

/* Gives one bucket of values per call, from the smallest up: its middle, and how many. Begin with
 * *at = 0. False: no more. */
bool distribution_next(const struct distribution *distribution, uint32_t *at, int64_t *ret_value,
		       uint64_t *ret_count);

/* A bar of a histogram: values from `low` up to below `high`. */
struct distribution_bar {
	int64_t low, high;
	uint64_t count;
};

#define DISTRIBUTION_BARS_MAX 129 /* all powers of two, of both signs */

/* Divides all values into bars, by powers of two or in equal steps, from the smallest value's to
 * the largest one's. Each value is in exactly one. Returns their number. */
unsigned distribution_bars(const struct distribution *distribution, bool is_linear,
			   struct distribution_bar ret_bars[DISTRIBUTION_BARS_MAX]);

#endif
