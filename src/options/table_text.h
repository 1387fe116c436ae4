/*
 * table_text.h - numbers and strings as text, fast, at the end of a strbuf.
 *
 * For what is printed a million times. Failure is the strbuf's: sticky, and text_flush tells it.
 */
#ifndef DYNTRACE_TABLE_TEXT_H
#define DYNTRACE_TABLE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/quote.h"
#include "control/base/strbuf.h"

void text_add(struct strbuf *buf, const char *text);
void text_unsigned(struct strbuf *buf, uint64_t value);
void text_signed(struct strbuf *buf, int64_t value);
void text_padded(struct strbuf *buf, uint64_t value, unsigned int digits); /* 000042 */
/* In base 16 (0x1f), 8 (037) or 2 (0b11). */
void text_based(struct strbuf *buf, uint64_t value, unsigned int base);

/* Writes it to stdout and empties it. false: it couldn't be written, errno says why. */
bool text_flush(struct strbuf *buf);

/* A cell of a table, and its end. Others' control characters don't get to the terminal. */
void text_cell(struct strbuf *buf, const char *text);
void text_cell_number(struct strbuf *buf, uint64_t value);
void text_end_row(struct strbuf *buf);
/* Gives the table's columns their widths. Lines that have no cells stay as they are. */
void text_align(struct strbuf *buf);

/* "key":"value", both quoted. */
void text_add_json(struct strbuf *text, const char *key, const char *value);

#endif
