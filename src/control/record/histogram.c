#include "histogram.h"

#include <assert.h>

uint64_t histogram_middle(uint32_t bucket, unsigned bits)
{
	uint32_t steps = 1u << bits;

	if (bucket < 2 * steps)
		return bucket;
	unsigned shift = bucket / steps - 1;
	uint64_t low = (uint64_t)(bucket % steps + steps) << shift;
	return low + ((1ULL << shift) >> 1);
}

uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
	uint64_t rank = (uint64_t)((double)histogram->total * share), seen = 0;

	assert(share >= 0 && share <= 1);
	for (uint32_t i = 0; i < histogram->buckets; i++) {
		seen += histogram->counts[i];
		if (seen && (seen > rank || seen == histogram->total)) {
			uint64_t middle = histogram_middle(i, histogram->bits);

			return middle < histogram->max ? middle : histogram->max;
		}
	}
	return 0;
}
