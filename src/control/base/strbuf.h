/*
 * strbuf.h - text that grows.
 *
 * Failure (out of memory) is sticky: the text stays what it was, `failed` is set, and the user
 * checks once at the end. text is always a string, never NULL, after the first call.
 */
#ifndef DYNTRACE_STRBUF_H
#define DYNTRACE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

struct strbuf {
	char *text;
	size_t length;
	size_t room;
	bool failed;
};

__attribute__((format(printf, 2, 3))) void strbuf_printf(struct strbuf *buf, const char *format,
							 ...);
void strbuf_add(struct strbuf *buf, const char *bytes, size_t length);
void strbuf_free(struct strbuf *buf);

#endif
