#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void text_add(struct strbuf *buf, const char *text)
{
	strbuf_add(buf, text, strlen(text));
}

static void add_digits(struct strbuf *buf, uint64_t value, unsigned int base, unsigned int width)
{
	char digits[64], *end = digits + sizeof(digits), *at = end;

	do
		*--at = "0123456789abcdef"[value % base];
	while ((value /= base) || (unsigned int)(end - at) < width);
	strbuf_add(buf, at, (size_t)(end - at));
}

void text_unsigned(struct strbuf *buf, uint64_t value)
{
	add_digits(buf, value, 10, 1);
}

void text_signed(struct strbuf *buf, int64_t value)
{
	if (value < 0)
		strbuf_add(buf, "-", 1);
	add_digits(buf, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10, 1);
}

void text_padded(struct strbuf *buf, uint64_t value, unsigned int digits)
{
	add_digits(buf, value, 10, digits);
}

void text_based(struct strbuf *buf, uint64_t value, unsigned int base)
{
	text_add(buf, base == 16 ? "0x" : base == 2 ? "0b" : value ? "0" : "");
	add_digits(buf, value, base, 1);
}

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

void text_add_json(struct strbuf *text, const char *key, const char *value)
{
	quote_json(text, key, strlen(key));
	text_add(text, ":");
	quote_json(text, value, strlen(value));
}
