/*
 * table_text.h - append numbers, strings and table cells to a strbuf, fast.
 *
 * For text that is printed a million times. Failure is sticky in the strbuf; text_flush reports it.
 */
#ifndef DYNTRACE_TABLE_TEXT_H
#define DYNTRACE_TABLE_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "control/base/quote.h"
#include "control/base/strbuf.h"

/* Text of our own: literals only (`a ? "b" : "c"` too), a test checks it. Inline: the compiler knows
 * their lengths. */
static inline void text_add(struct strbuf *buf, const char *text)
{
	strbuf_add(buf, text, strlen(text));
}

/* Text of our own in a variable. */
static inline void text_own(struct strbuf *buf, const char *text)
{
	if (*text)
		strbuf_add(buf, text, strlen(text));
}
/* All other text: escaped, see quote.h. */
void text_foreign(struct strbuf *buf, const char *text);
void text_unsigned(struct strbuf *buf, uint64_t value);
void text_signed(struct strbuf *buf, int64_t value);
void text_padded(struct strbuf *buf, uint64_t value, unsigned int digits); /* 000042 */
/* In base 16 (0x1f), 8 (037) or 2 (0b11). */
void text_based(struct strbuf *buf, uint64_t value, unsigned int base);

/* Writes the text to stdout and empties the strbuf. false: failed, see errno. */
bool text_flush(struct strbuf *buf);

/* Append a table cell, escaped, or end a row. */
void text_cell(struct strbuf *buf, const char *text);
void text_cell_number(struct strbuf *buf, uint64_t value);
void text_end_row(struct strbuf *buf);
/* Pads the cells to the width of their column. Lines without cells stay as they are. */
void text_align(struct strbuf *buf);

/* Appends a cell of CSV, escaped: in quotes, which are doubled inside it. */
void text_add_csv(struct strbuf *text, const char *cell, size_t length);
/* Appends "key":"value", both quoted. */
void text_add_json(struct strbuf *text, const char *key, const char *value);

#endif
