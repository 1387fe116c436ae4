#include "distribution.h"

#include <assert.h>
#include <stdlib.h>

#define STEPS DISTRIBUTION_STEPS
#define ROWS DISTRIBUTION_ROWS
#define LINEAR_BARS 20u

static_assert(DISTRIBUTION_BARS_MAX >= 2 * 64 + 1, "a bar per power of two");

static uint64_t magnitude_of(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

uint64_t *distribution_cell(struct distribution *distribution, bool is_negative,
			    uint32_t bucket)
{
	struct distribution_half **half = &distribution->halves[is_negative];

	assert(bucket < ROWS * STEPS);
	if (!*half && !(*half = calloc(1, sizeof(**half))))
		return NULL;
	uint64_t **row = &(*half)->rows[bucket / STEPS];
	if (!*row && !(*row = calloc(STEPS, sizeof(**row))))
		return NULL;
	return *row + bucket % STEPS;
}

/* Makes all cells that `other` has. */
static bool reserve(struct distribution *distribution, const struct distribution *other)
{
	for (unsigned sign = 0; sign < 2; sign++)
		for (uint32_t i = 0; other->halves[sign] && i < ROWS; i++) {
			if (other->halves[sign]->rows[i] &&
			    !distribution_cell(distribution, sign, i * STEPS))
				return false;
		}
	return true;
}

bool distribution_merge(struct distribution *distribution, const struct distribution *other)
{
	if (!reserve(distribution, other))
		return false;
	for (unsigned sign = 0; sign < 2; sign++)
		for (uint32_t i = 0; other->halves[sign] && i < ROWS * STEPS; i++) {
			const uint64_t *row = other->halves[sign]->rows[i / STEPS];

			if (row && row[i % STEPS])
				*distribution_cell(distribution, sign, i) += row[i % STEPS];
		}
	if (other->count && (!distribution->count || other->min < distribution->min))
		distribution->min = other->min;
	if (other->count && (!distribution->count || other->max > distribution->max))
		distribution->max = other->max;
	distribution->count += other->count;
	distribution->sum = (int64_t)((uint64_t)distribution->sum + (uint64_t)other->sum);
	return true;
}

void distribution_free(struct distribution *distribution)
{
	for (unsigned sign = 0; sign < 2; sign++) {
		for (unsigned i = 0; distribution->halves[sign] && i < ROWS; i++)
			free(distribution->halves[sign]->rows[i]);
		free(distribution->halves[sign]);
	}
	*distribution = (struct distribution){ 0 };
}

int64_t distribution_mean(const struct distribution *distribution)
{
	return distribution->count ? distribution->sum / (int64_t)distribution->count : 0;
}

/* Gives each bucket that has values, from the smallest value up; false: no more. */
struct walk {
	const struct distribution *distribution;
	uint32_t next; /* negative buckets downwards, then the others upwards */
	bool is_negative;
	uint32_t bucket;
	uint64_t count;
};

static bool next_bucket(struct walk *walk)
{
	while (walk->next < 2 * ROWS * STEPS) {
		bool is_negative = walk->next < ROWS * STEPS;
		uint32_t i = is_negative ? ROWS * STEPS - 1 - walk->next :
					   walk->next - ROWS * STEPS;
		const struct distribution_half *half = walk->distribution->halves[is_negative];

		if (!half || !half->rows[i / STEPS]) {
			walk->next = (walk->next | (STEPS - 1)) + 1;
			continue;
		}
		walk->next++;
		walk->is_negative = is_negative;
		walk->bucket = i;
		walk->count = half->rows[i / STEPS][i % STEPS];
		if (walk->count)
			return true;
	}
	return false;
}

static int64_t middle_of(const struct walk *walk)
{
	uint64_t middle = histogram_middle(walk->bucket, DISTRIBUTION_BITS);

	if (walk->is_negative)
		return middle > INT64_MAX ? INT64_MIN : -(int64_t)middle;
	return middle > INT64_MAX ? INT64_MAX : (int64_t)middle;
}

bool distribution_next(const struct distribution *distribution, uint32_t *at, int64_t *ret_value,
		       uint64_t *ret_count)
{
	struct walk walk = { .distribution = distribution, .next = *at };

	if (!next_bucket(&walk))
		return false;
	*at = walk.next;
	*ret_value = middle_of(&walk);
	*ret_count = walk.count;
	return true;
}

int64_t distribution_quantile(const struct distribution *distribution, double share)
{
	uint64_t rank = (uint64_t)((double)distribution->count * share), seen = 0;
	struct walk walk = { .distribution = distribution };

	assert(share >= 0 && share <= 1);
	while (next_bucket(&walk)) {
		seen += walk.count;
		if (seen <= rank && seen != distribution->count)
			continue;
		int64_t middle = middle_of(&walk);
		return middle > distribution->max ? distribution->max :
		       middle < distribution->min ? distribution->min :
						    middle;
	}
	return 0;
}

/* ---- bars ----------------------------------------------------------------------------------- */

/*
 * Bars are numbered from 0 on, and from -1 down for values below 0, which mirror the others: bar n
 * holds the magnitudes of bar -1 - n. So a bucket never lies in two.
 */
struct scale {
	bool is_linear;
	unsigned shift;
};

static int64_t bar_of(const struct scale *scale, int64_t value)
{
	uint64_t magnitude = magnitude_of(value);
	int64_t bar = scale->is_linear ? (int64_t)(magnitude >> scale->shift) :
					 63 - __builtin_clzll(magnitude | 1);

	return value < 0 ? -1 - bar : bar;
}

/* The smallest magnitude of a bar, from 0 on; as much as fits. */
static int64_t low_of(const struct scale *scale, int64_t bar)
{
	unsigned __int128 low = scale->is_linear ? (unsigned __int128)bar << scale->shift :
				bar		 ? (unsigned __int128)1 << bar :
						   0;

	return low > INT64_MAX ? INT64_MAX : (int64_t)low;
}

static struct distribution_bar make_bar(const struct scale *scale, int64_t bar)
{
	if (bar >= 0)
		return (struct distribution_bar){ low_of(scale, bar), low_of(scale, bar + 1), 0 };
	int64_t low = low_of(scale, -1 - bar);
	return (struct distribution_bar){ 1 - low_of(scale, -bar), low ? 1 - low : 0, 0 };
}

/* A power of two that is no smaller than any bucket: each lies in one bar. */
static unsigned linear_shift(const struct distribution *distribution)
{
	uint64_t span = (uint64_t)distribution->max - (uint64_t)distribution->min,
		 low = magnitude_of(distribution->min), high = magnitude_of(distribution->max),
		 largest = (low > high ? low : high) | STEPS;
	unsigned least = 63 - (unsigned)__builtin_clzll(largest) - DISTRIBUTION_BITS, shift = least;

	while (shift < 63 && (span >> shift) >= LINEAR_BARS)
		shift++;
	return shift;
}

unsigned distribution_bars(const struct distribution *distribution, bool is_linear,
			   struct distribution_bar ret_bars[DISTRIBUTION_BARS_MAX])
{
	struct scale scale = { is_linear, linear_shift(distribution) };
	struct walk walk = { .distribution = distribution };
	int64_t first = bar_of(&scale, distribution->min), last = bar_of(&scale, distribution->max);

	if (!distribution->count)
		return 0;
	assert(first <= last && last - first < DISTRIBUTION_BARS_MAX);
	for (int64_t bar = first; bar <= last; bar++)
		ret_bars[bar - first] = make_bar(&scale, bar);
	while (next_bucket(&walk)) {
		int64_t bar = bar_of(&scale, middle_of(&walk));

		assert(bar >= first && bar <= last);
		ret_bars[bar - first].count += walk.count;
	}
	return (unsigned)(last - first) + 1;
}
