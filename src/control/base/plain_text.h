/*
 * plain_text.h - append numbers and strings to a strbuf, fast.
 *
 * For text that is printed a million times. Failure is sticky in the strbuf.
 */
#ifndef DYNTRACE_PLAIN_TEXT_H
#define DYNTRACE_PLAIN_TEXT_H

#include <stdint.h>
#include <string.h>

#include "strbuf.h"

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

#endif
