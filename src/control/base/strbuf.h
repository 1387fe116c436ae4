/*
 * strbuf.h - text that grows.
 *
 * Failure (out of memory) is sticky: `text` stays as it was, `failed` is set, and the caller checks
 * once at the end. After the first call that succeeds `text` is a string, never NULL.
 */
#ifndef DYNTRACE_STRBUF_H
#define DYNTRACE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct strbuf {
	char *text;
	size_t length;
	size_t room;
	bool failed;
};

__attribute__((format(printf, 2, 3))) void strbuf_printf(struct strbuf *buf, const char *format,
							 ...);
/* Makes room for so many bytes and a NUL. */
bool strbuf_grow(struct strbuf *buf, size_t more);
/* Here, as the length mostly is a constant: `view` adds a dozen short pieces per event. */
static inline void strbuf_add(struct strbuf *buf, const char *bytes, size_t length)
{
	if ((buf->failed || buf->room - buf->length <= length) && !strbuf_grow(buf, length))
		return;
	memcpy(buf->text + buf->length, bytes, length);
	buf->length += length;
	buf->text[buf->length] = '\0';
}
void strbuf_free(struct strbuf *buf);

#endif
