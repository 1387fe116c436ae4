/*
 * text.h - numbers and strings as text, fast, at the end of a strbuf.
 *
 * For what is printed a million times. Failure is the strbuf's: sticky, and text_flush tells it.
 */
#ifndef DYNTRACE_CLI_TEXT_H
#define DYNTRACE_CLI_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "../control/base/strbuf.h"

void text_add(struct strbuf *buf, const char *text);
void text_unsigned(struct strbuf *buf, uint64_t value);
void text_signed(struct strbuf *buf, int64_t value);
void text_padded(struct strbuf *buf, uint64_t value, unsigned int digits); /* 000042 */
/* In base 16 (0x1f), 8 (037) or 2 (0b11). */
void text_based(struct strbuf *buf, uint64_t value, unsigned int base);

/* In quotes. For C, what could act on a terminal or isn't UTF-8 becomes \n, \x1b, ...; for JSON as
 * its grammar says, with U+FFFD for what isn't UTF-8. */
void text_quote_c(struct strbuf *buf, const char *bytes, size_t length);
void text_quote_json(struct strbuf *buf, const char *bytes, size_t length);

/* Writes it to stdout and empties it. false: it couldn't be written, errno says why. */
bool text_flush(struct strbuf *buf);

/* "key":"value", both quoted. */
void text_add_json(struct strbuf *text, const char *key, const char *value);

#endif
