#include "xml_text.h"

#include <stdbool.h>
#include <string.h>

#include "options/table_text.h"

/* Continues a character of UTF-8? */
static bool is_inside(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

static size_t characters(const struct strbuf *text)
{
	size_t count = 0;

	for (size_t i = 0; i < text->length; i++)
		count += !is_inside(text->text[i]);
	return count;
}

/* U+FFFE and U+FFFF are UTF-8, and no characters. */
static bool is_forbidden(const char *at, size_t left)
{
	return left >= 3 && (!memcmp(at, "\xef\xbf\xbe", 3) || !memcmp(at, "\xef\xbf\xbf", 3));
}

static void add_character(struct strbuf *text, const char *at, size_t length, size_t left)
{
	static const struct {
		char character;
		const char *entity;
	} entities[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" },
			 { '"', "&quot;" }, { '\'', "&#39;" } };

	for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++)
		if (*at == entities[i].character) {
			text_own(text, entities[i].entity);
			return;
		}
	if (is_forbidden(at, left))
		text_add(text, "\xef\xbf\xbd");
	else
		quote_plain(text, at, length);
}

void xml_text(struct strbuf *text, const char *name, size_t most)
{
	struct strbuf plain = { 0 };
	size_t shown = 0, whole;

	quote_plain(&plain, name, strlen(name));
	text->failed |= plain.failed;
	whole = characters(&plain);
	for (size_t at = 0, length; at < plain.length; at += length, shown++) {
		if (most && whole > most && shown + 2 >= most) {
			text_add(text, "..");
			break;
		}
		for (length = 1; at + length < plain.length && is_inside(plain.text[at + length]);)
			length++;
		add_character(text, plain.text + at, length, plain.length - at);
	}
	strbuf_free(&plain);
}
