#include "ranges.h"

#include <stdlib.h>

#include "shared/sorted.h"

static int compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

void ranges_sort(struct ranges *ranges)
{
	if (ranges->count > 1)
		qsort(ranges->items, ranges->count, sizeof(*ranges->items), compare);
}

const struct range *ranges_find(const struct ranges *ranges, uint64_t address)
{
	size_t n = sorted_count(ranges->count, i, ranges->items[i].start <= address);

	if (n == 0 || ranges->items[n - 1].end <= address)
		return NULL;
	return &ranges->items[n - 1];
}
