#include "strbuf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "vec.h"

bool strbuf_grow(struct strbuf *buf, size_t more)
{
	if (!buf->failed &&
	    !vec_grow((void **)&buf->text, &buf->room, buf->length, more + 1, sizeof(char)))
		buf->failed = true;
	return !buf->failed;
}

void strbuf_printf(struct strbuf *buf, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	int length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0) {
		buf->failed = true;
		return;
	}
	strbuf_add(buf, text, (size_t)length);
	free(text);
}

void strbuf_free(struct strbuf *buf)
{
	free(buf->text);
	*buf = (struct strbuf){ 0 };
}
