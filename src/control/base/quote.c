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

static bool is_control(const unsigned char *bytes, size_t length)
{
	return bytes[0] < 0x20 || bytes[0] == 0x7f ||
	       (length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0);
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
		uint64_t code = utf8 == 2 ? (bytes[0] & 0x1fu) << 6 | (bytes[1] & 0x3fu) : bytes[0];

		strbuf_add(buf, "\\u", strlen("\\u"));
		strbuf_printf(buf, "%04x", (unsigned)code);
	}
	return utf8 ? utf8 : 1;
}

static void quote(struct strbuf *buf, const char *text, size_t length,
		  size_t (*escape)(struct strbuf *, const unsigned char *, size_t))
{
	const unsigned char *bytes = (const unsigned char *)text, *end = bytes + length;
	const unsigned char *plain = bytes; /* start of the bytes not added yet */

	strbuf_add(buf, "\"", 1);
	while (bytes < end) {
		size_t utf8 = utf8_length(bytes, (size_t)(end - bytes));

		if (utf8 && !is_control(bytes, utf8) && bytes[0] != '"' && bytes[0] != '\\') {
			bytes += utf8;
			continue;
		}
		strbuf_add(buf, (const char *)plain, (size_t)(bytes - plain));
		bytes += escape(buf, bytes, utf8);
		plain = bytes;
	}
	strbuf_add(buf, (const char *)plain, (size_t)(bytes - plain));
	strbuf_add(buf, "\"", 1);
}

void quote_c(struct strbuf *buf, const char *bytes, size_t length)
{
	quote(buf, bytes, length, escape_c);
}

void quote_json(struct strbuf *buf, const char *bytes, size_t length)
{
	quote(buf, bytes, length, escape_json);
}
