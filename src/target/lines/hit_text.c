/*
 * hit_text.c - append text and numbers to a line.
 */
#include "lines.h"

void hit_text_bytes(struct hit_text *text, const char *bytes, uint64_t count)
{
	/* Whole pieces only: a character of several bytes isn't cut in two. */
	if (text->is_cut || count > text->room - text->length) {
		text->is_cut = true;
		return;
	}
	for (uint64_t i = 0; i < count; i++)
		text->bytes[text->length++] = bytes[i];
}

static void add_based(struct hit_text *text, uint64_t value, uint32_t base, uint32_t least)
{
	static const char digits[] = "0123456789abcdef";
	char bytes[20];
	uint32_t at = sizeof(bytes);

	do {
		bytes[--at] = digits[value % base];
		value /= base;
	} while (value || sizeof(bytes) - at < least);
	hit_text_bytes(text, bytes + at, sizeof(bytes) - at);
}

void hit_text_unsigned(struct hit_text *text, uint64_t value)
{
	add_based(text, value, 10, 1);
}

void hit_text_signed(struct hit_text *text, int64_t value)
{
	if (value < 0)
		hit_text_add(text, "-");
	add_based(text, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10, 1);
}

void hit_text_hex(struct hit_text *text, uint64_t value)
{
	hit_text_add(text, "0x");
	add_based(text, value, 16, 1);
}

void hit_text_padded(struct hit_text *text, uint64_t value, uint32_t digits)
{
	add_based(text, value, 10, digits);
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The UTF-8 character that the bytes begin with, and its length in *ret_length; 0: none. */
static uint32_t take_character(const uint8_t *bytes, uint64_t count, uint32_t *ret_length)
{
	uint32_t length = bytes[0] < 0x80	    ? 1 :
			  (bytes[0] & 0xe0) == 0xc0 ? 2 :
			  (bytes[0] & 0xf0) == 0xe0 ? 3 :
			  (bytes[0] & 0xf8) == 0xf0 ? 4 :
						      0;
	uint32_t code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
	uint32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : length == 2 ? 0x80 : 0;

	*ret_length = 0;
	if (!length || length > count)
		return 0;
	for (uint32_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (bytes[i] & 0x3f);
	}
	if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_length = length;
	return code;
}

/* As is_control of control/base/quote.c: characters that act on a terminal, or show text elsewhere
 * than it stands. */
static bool acts(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = { { 0, 0x1f },	   { 0x7f, 0x9f },     { 0x61c, 0x61c },
		       { 0x200e, 0x200f }, { 0x2028, 0x202e }, { 0x2066, 0x2069 },
		       { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe007f } };

	for (uint32_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	}
	return false;
}

static void add_escaped(struct hit_text *text, const uint8_t *bytes, uint32_t count)
{
	static const char plain[] = "\"\\\n\t\r\b\f", letters[] = "\"\\ntrbf";

	for (uint32_t i = 0; i < sizeof(plain) - 1; i++) {
		if (bytes[0] == (uint8_t)plain[i]) {
			hit_text_add(text, "\\");
			hit_text_bytes(text, &letters[i], 1);
			return;
		}
	}
	for (uint32_t i = 0; i < count; i++) {
		hit_text_add(text, "\\x");
		add_based(text, bytes[i], 16, 2);
	}
}

void hit_text_quoted(struct hit_text *text, const char *from, uint64_t count)
{
	const uint8_t *bytes = (const uint8_t *)from;
	uint32_t length;

	hit_text_add(text, "\"");
	for (uint64_t i = 0; i < count; i += length ? length : 1) {
		uint32_t code = take_character(bytes + i, count - i, &length);

		if (!length || acts(code) || code == '"' || code == '\\')
			add_escaped(text, bytes + i, length ? length : 1);
		else
			hit_text_bytes(text, from + i, length);
	}
	hit_text_add(text, "\"");
}
