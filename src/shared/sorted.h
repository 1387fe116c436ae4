/*
 * sorted.h - binary search in a sorted array.
 *
 *	size_t n = sorted_count(table->count, i, table->items[i].start <= address);
 *
 * The number of items that fulfil the condition, which must hold for the first items and for none
 * after them. So item n is the first that doesn't fulfil it, and n - 1 the last that does.
 */
#ifndef DYNTRACE_SORTED_H
#define DYNTRACE_SORTED_H

#include <stddef.h>

#define sorted_count(count, index, condition)                                      \
	({                                                                         \
		size_t low_ = 0, high_ = (count);                                  \
                                                                                   \
		while (low_ < high_) {                                             \
			size_t index = low_ + (high_ - low_) / 2;                  \
                                                                                   \
			if (condition)                                             \
				low_ = index + 1;                                  \
			else                                                       \
				high_ = index;                                     \
		}                                                                  \
		low_;                                                              \
	})

#endif
