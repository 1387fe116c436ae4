#include "quote.h"

#include <stdint.h>
#include <string.h>

/* Length of the UTF-8 character that `bytes` begin with; 0: not UTF-8. */
static size_t utf8_length(const unsigned char *bytes, size_t length)
{
	static const struct {
		unsigned char mask, bits;
		uint32_t least;
	} forms[] = { { 0x80, 0x00, 0 },
		      { 0xe0, 0xc0, 0x80 },
		      { 0xf0, 0xe0, 0x800 },
		      { 0xf8, 0xf0, 0x10000 } };

	for (size_t n = 1; n <= 4; n++) {
		if ((bytes[0] & forms[n - 1].mask) != forms[n - 1].bits)
			continue;
		if (n > length)
			return 0;
		uint32_t code = bytes[0] & (unsigned char)~forms[n - 1].mask;
		for (size_t i = 1; i < n; i++) {
			if ((bytes[i] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (bytes[i] & 0x3f);
		}
		bool surrogate = code >= 0xd800 && code <= 0xdfff;
		return code < forms[n - 1].least || code > 0x10ffff || surrogate ? 0 : n;
	}
	return 0;
}

/* Letter that follows the backslash for this byte; 0: none. */
static char escape_letter(unsigned char byte)
{
	static const char bytes[] = "\"\\\n\t\r\b\f", letters[] = "\"\\ntrbf";
	const char *found = byte ? strchr(bytes, byte) : NULL;

	return found ? letters[found - bytes] : '\0';
}

static uint32_t code_of(const unsigned char *bytes, size_t utf8)
{
	uint32_t code = utf8 == 1 ? bytes[0] : bytes[0] & (0x7fu >> utf8);

	for (size_t i = 1; i < utf8; i++)
		code = code << 6 | (bytes[i] & 0x3f);
	return code;
}

/* Characters that act on a terminal, or show text in another order or on another line than it has:
 * controls, marks of direction and separators of lines. */
static bool is_control(const unsigned char *bytes, size_t utf8)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = { { 0, 0x1f },	     { 0x7f, 0x9f },	  { 0x61c, 0x61c },
		       { 0x200e, 0x200f },   { 0x2028, 0x202e },  { 0x2066, 0x2069 },
		       { 0xfeff, 0xfeff },   { 0xfff9, 0xfffb },  { 0xe0000, 0xe007f } };
	uint32_t code = code_of(bytes, utf8);

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (code >= ranges[i].first && code <= ranges[i].last)
			return true;
	}
	return false;
}

/* Adds an escape sequence; returns how many of `bytes` it stands for. */
static size_t escape_c(struct strbuf *buf, const unsigned char *bytes, size_t utf8)
{
	char letter = escape_letter(bytes[0]);

	if (letter) {
		strbuf_add(buf, (char[]){ '\\', letter }, 2);
		return 1;
	}
	size_t count = utf8 ? utf8 : 1;
	for (size_t i = 0; i < count; i++) {
		strbuf_add(buf, "\\x", 2);
		strbuf_printf(buf, "%02x", (unsigned)bytes[i]);
	}
	return count;
}

static size_t escape_json(struct strbuf *buf, const unsigned char *bytes, size_t utf8)
{
	char letter = escape_letter(bytes[0]);

	if (letter) {
		strbuf_add(buf, (char[]){ '\\', letter }, 2);
	} else if (!utf8) {
		strbuf_add(buf, "\\ufffd", strlen("\\ufffd"));
	} else {
		uint32_t code = code_of(bytes, utf8);

		if (code > 0xffff) { /* two halves */
			strbuf_printf(buf, "\\u%04x", 0xd800 + ((code - 0x10000) >> 10));
			code = 0xdc00 + (code & 0x3ff);
		}
		strbuf_printf(buf, "\\u%04x", code);
	}
	return utf8 ? utf8 : 1;
}

/* One or two characters: a call of strchr per byte would take most of the time. */
static bool is_special(const char *special, unsigned char c)
{
	for (; *special; special++)
		if ((unsigned char)*special == c)
			return true;
	return false;
}

/* `special`: characters that are escaped though they are printable. */
static void escape(struct strbuf *buf, const char *text, size_t length, const char *special,
		   size_t (*add)(struct strbuf *, const unsigned char *, size_t))
{
	const unsigned char *bytes = (const unsigned char *)text, *end = bytes + length;
	const unsigned char *plain = bytes; /* start of the bytes not added yet */

	while (bytes < end) {
		if (*bytes >= ' ' && *bytes < 0x7f && !is_special(special, *bytes)) {
			bytes++;
			continue;
		}
		size_t utf8 = utf8_length(bytes, (size_t)(end - bytes));
		if (utf8 > 1 && !is_control(bytes, utf8)) {
			bytes += utf8;
			continue;
		}
		strbuf_add(buf, (const char *)plain, (size_t)(bytes - plain));
		bytes += add(buf, bytes, utf8);
		plain = bytes;
	}
	strbuf_add(buf, (const char *)plain, (size_t)(bytes - plain));
}

void quote_c(struct strbuf *buf, const char *bytes, size_t length)
{
	strbuf_add(buf, "\"", 1);
	escape(buf, bytes, length, "\"\\", escape_c);
	strbuf_add(buf, "\"", 1);
}

void quote_json(struct strbuf *buf, const char *bytes, size_t length)
{
	strbuf_add(buf, "\"", 1);
	escape(buf, bytes, length, "\"\\", escape_json);
	strbuf_add(buf, "\"", 1);
}

void quote_plain(struct strbuf *buf, const char *bytes, size_t length)
{
	escape(buf, bytes, length, "", escape_c);
}

void quote_lines(struct strbuf *buf, const char *text)
{
	for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
		quote_plain(buf, text, (size_t)(end - text));
		strbuf_add(buf, "\n", 1);
	}
	quote_plain(buf, text, strlen(text));
}
