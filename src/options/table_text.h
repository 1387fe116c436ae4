/*
 * table_text.h - tables of text, and text to stdout.
 *
 * Failure is sticky in the strbuf; text_flush reports it.
 */
#ifndef DYNTRACE_TABLE_TEXT_H
#define DYNTRACE_TABLE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/plain_text.h"
#include "control/base/quote.h"
#include "control/base/strbuf.h"

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
