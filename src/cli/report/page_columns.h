/*
 * page_columns.h - columns of numbers for a page: varints, deflated as they come, base64 at the
 * end.
 *
 * Memory: what the numbers have become, not how many they are. Failure (out of memory) is sticky.
 */
#ifndef DYNTRACE_PAGE_COLUMNS_H
#define DYNTRACE_PAGE_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

#include "control/base/strbuf.h"

#define PAGE_COLUMN_ROOM (32u << 10)

struct page_column {
	z_stream stream;
	bool is_begun, failed;
	size_t used; /* of `room` */
	uint8_t room[PAGE_COLUMN_ROOM]; /* bytes that aren't deflated yet */
	struct strbuf done;
};

/* Starts with all zero. */
void page_column_add(struct page_column *column, uint64_t value);
/* Small values of either sign become small ones. */
void page_column_add_signed(struct page_column *column, int64_t value);
/* Ends the column. False: failed. */
bool page_column_end(struct page_column *column);
void page_column_free(struct page_column *column);

/* Appends bytes of an ended column in base64, from `from` on, at most `most`, a multiple of 3.
 * Returns how many. */
size_t page_column_base64(const struct page_column *column, size_t from, size_t most,
			  struct strbuf *text);

#endif
