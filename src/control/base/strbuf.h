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
