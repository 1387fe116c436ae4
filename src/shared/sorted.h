/*
 * sorted.h - looking into what is sorted.
 *
 *	size_t n = sorted_count(table->count, i, table->items[i].start <= address);
 *
 * How many of the items the condition holds for, which it does for the first ones and for none
 * behind them. So item n is the first that it doesn't hold for, and n - 1 the last that it does.
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
