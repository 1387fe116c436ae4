#include "table_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool text_flush(struct strbuf *buf)
{
	size_t length = buf->length;

	if (buf->failed) {
		errno = ENOMEM;
		return false;
	}
	buf->length = 0;
	return length == 0 || fwrite_unlocked(buf->text, 1, length, stdout) == length;
}

void text_add_csv(struct strbuf *text, const char *cell, size_t length)
{
	text_add(text, "\"");
	for (size_t i = 0; i < length;) {
		const char *quote = memchr(cell + i, '"', length - i);
		size_t plain = quote ? (size_t)(quote - cell) - i : length - i;

		quote_plain(text, cell + i, plain);
		i += plain;
		if (quote) {
			text_add(text, "\"\"");
			i++;
		}
	}
	text_add(text, "\"");
}

void text_add_json(struct strbuf *text, const char *key, const char *value)
{
	quote_json(text, key, strlen(key));
	text_add(text, ":");
	quote_json(text, value, strlen(value));
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define CELL_END '\t'
#define COLUMNS_MAX 16

void text_cell(struct strbuf *buf, const char *text)
{
	quote_plain(buf, text, strlen(text));
	strbuf_add(buf, &(char){ CELL_END }, 1);
}

void text_cell_number(struct strbuf *buf, uint64_t value)
{
	text_unsigned(buf, value);
	strbuf_add(buf, &(char){ CELL_END }, 1);
}

void text_end_row(struct strbuf *buf)
{
	strbuf_add(buf, "\n", 1);
}

/* Columns on a terminal: continuation bytes of UTF-8 take none. */
static size_t width_of(const char *text, size_t length)
{
	size_t width = 0;

	for (size_t i = 0; i < length; i++)
		width += ((unsigned char)text[i] & 0xc0) != 0x80;
	return width;
}

/* `last`: the cell ends its row. */
typedef void (*cell_fn)(void *context, size_t column, const char *text, size_t length, bool last);

static void each_cell(const char *row, size_t length, cell_fn visit, void *context)
{
	size_t column = 0;

	while (length) {
		const char *end = memchr(row, CELL_END, length);
		size_t size = end ? (size_t)(end - row) : length;
		bool last = !end || end + 1 == row + length;

		visit(context, column < COLUMNS_MAX ? column : COLUMNS_MAX - 1, row, size, last);
		if (last)
			return;
		column++;
		row += size + 1;
		length -= size + 1;
	}
}

static void measure(void *context, size_t column, const char *text, size_t length, bool last)
{
	size_t *widths = context, width = width_of(text, length);

	if (!last && widths[column] < width)
		widths[column] = width;
}

struct aligning {
	const size_t *widths;
	struct strbuf *out;
};

static void align_cell(void *context, size_t column, const char *text, size_t length, bool last)
{
	const struct aligning *aligning = context;

	strbuf_add(aligning->out, text, length);
	for (size_t i = width_of(text, length); !last && i < aligning->widths[column] + 2; i++)
		strbuf_add(aligning->out, " ", 1);
}

void text_align(struct strbuf *buf)
{
	size_t widths[COLUMNS_MAX] = { 0 };
	struct strbuf out = { 0 };
	struct aligning aligning = { widths, &out };

	for (int pass = 0; pass < 2 && !buf->failed; pass++) {
		for (size_t at = 0, size; at < buf->length; at += size + 1) {
			const char *row = buf->text + at,
				   *end = memchr(row, '\n', buf->length - at);

			size = end ? (size_t)(end - row) : buf->length - at;
			if (!memchr(row, CELL_END, size)) {
				if (pass)
					strbuf_add(&out, row, size + (end != NULL));
				continue;
			}
			each_cell(row, size, pass ? align_cell : measure,
				  pass ? (void *)&aligning : widths);
			if (pass)
				strbuf_add(&out, "\n", 1);
		}
	}
	out.failed |= buf->failed;
	strbuf_free(buf);
	*buf = out;
}
