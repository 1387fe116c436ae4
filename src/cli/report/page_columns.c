#include "page_columns.h"

#include <stdlib.h>
#include <string.h>

#define LEVEL 6
#define WINDOW (-15) /* raw: no header, no checksum */

static void deflate_room(struct page_column *column, int flush)
{
	uint8_t bytes[PAGE_COLUMN_ROOM];
	int result;

	if (!column->is_begun && !column->failed) {
		column->failed = deflateInit2(&column->stream, LEVEL, Z_DEFLATED, WINDOW, 9,
					      Z_DEFAULT_STRATEGY) != Z_OK;
		column->is_begun = !column->failed;
	}
	if (column->failed)
		return;
	column->stream.next_in = column->room;
	column->stream.avail_in = (uInt)column->used;
	do {
		column->stream.next_out = bytes;
		column->stream.avail_out = sizeof(bytes);
		result = deflate(&column->stream, flush);
		strbuf_add(&column->done, (const char *)bytes,
			   sizeof(bytes) - column->stream.avail_out);
	} while (result == Z_OK && !column->stream.avail_out);
	column->failed |= column->done.failed || result == Z_STREAM_ERROR;
	column->used = 0;
}

void page_column_add(struct page_column *column, uint64_t value)
{
	if (column->used > PAGE_COLUMN_ROOM - 10)
		deflate_room(column, Z_NO_FLUSH);
	if (column->failed)
		return;
	for (; value > 127; value >>= 7)
		column->room[column->used++] = (uint8_t)(value | 128);
	column->room[column->used++] = (uint8_t)value;
}

void page_column_add_signed(struct page_column *column, int64_t value)
{
	page_column_add(column, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

bool page_column_end(struct page_column *column)
{
	deflate_room(column, Z_FINISH);
	return !column->failed;
}

void page_column_free(struct page_column *column)
{
	if (column->is_begun)
		deflateEnd(&column->stream);
	strbuf_free(&column->done);
}

size_t page_column_base64(const struct page_column *column, size_t from, size_t most,
			  struct strbuf *text)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t left = column->done.length - from, count = left < most ? left : most;
	const uint8_t *bytes = (const uint8_t *)column->done.text + from;

	for (size_t i = 0; i < count; i += 3) {
		size_t n = count - i < 3 ? count - i : 3;
		uint32_t three = (uint32_t)bytes[i] << 16 | (n > 1 ? bytes[i + 1] : 0u) << 8 |
				 (n > 2 ? bytes[i + 2] : 0u);
		char four[4] = { letters[three >> 18], letters[three >> 12 & 63],
				 n > 1 ? letters[three >> 6 & 63] : '=',
				 n > 2 ? letters[three & 63] : '=' };

		strbuf_add(text, four, sizeof(four));
	}
	return count;
}
