/*
 * histogram.h - log-linear histograms: 2^bits steps between each power of two and the next.
 *
 * The middle of a bucket is within 1 / 2^(bits + 1) of every value in it. Pure.
 */
#ifndef DYNTRACE_HISTOGRAM_H
#define DYNTRACE_HISTOGRAM_H

#include <stdint.h>

/* The bucket of a value. Inline: the reader asks for each exit. */
static inline uint32_t histogram_bucket(uint64_t value, unsigned bits)
{
	uint64_t steps = 1ULL << bits;
	unsigned shift = 63 - (unsigned)__builtin_clzll(value | steps) - bits;

	return (uint32_t)((uint64_t)shift * steps + (value >> shift));
}
/* The value in the middle of a bucket. */
uint64_t histogram_middle(uint32_t bucket, unsigned bits);

struct histogram {
	unsigned bits;
	const uint64_t *counts; /* by bucket */
	uint32_t buckets;
	uint64_t total; /* sum of all counts */
	uint64_t max; /* the largest value */
};

/* The value below or at which `share` of all values lie; 0: no values. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

#endif
