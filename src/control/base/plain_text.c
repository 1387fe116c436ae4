#include "plain_text.h"

#include "quote.h"

void text_foreign(struct strbuf *buf, const char *text)
{
	quote_plain(buf, text, strlen(text));
}

static void add_digits(struct strbuf *buf, uint64_t value, unsigned int base, unsigned int width)
{
	char digits[64], *end = digits + sizeof(digits), *at = end;

	if (base == 10) /* a division by a constant takes a fraction of the time */
		do
			*--at = (char)('0' + value % 10);
		while ((value /= 10) || (unsigned int)(end - at) < width);
	else
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
