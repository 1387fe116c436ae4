/*
 * quote_format.c - printf with escaped strings.
 *
 * Only strings are treated here; the C library formats numbers. Flags, widths, precisions work as
 * usual, except that a string's width counts characters, as a terminal does.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quote.h"

/* One conversion: "%-*.3llu". */
struct spec {
	const char *start;
	size_t length; /* with its letter */
	bool left; /* flag '-' */
	int width; /* -1: none */
	int precision; /* -1: none */
	char size; /* 'H': hh, h, l, 'L': ll, z, j; 0: int */
	char letter;
};

/* va_list may be an array, which functions can't hand on by pointer. */
struct arguments {
	va_list list;
};

static int read_number(const char **at, struct arguments *arguments)
{
	int value = 0;

	if (**at == '*') {
		(*at)++;
		return va_arg(arguments->list, int);
	}
	while (**at >= '0' && **at <= '9')
		value = value * 10 + *(*at)++ - '0';
	return value;
}

static struct spec read_spec(const char *at, struct arguments *arguments)
{
	struct spec spec = { .start = at++, .width = -1, .precision = -1 };

	for (; *at && strchr("-+ #0", *at); at++)
		spec.left |= *at == '-';
	if (*at == '*' || (*at >= '0' && *at <= '9'))
		spec.width = read_number(&at, arguments);
	if (spec.width < -1) {
		spec.left = true;
		spec.width = -spec.width;
	}
	if (*at == '.') {
		at++;
		spec.precision = read_number(&at, arguments);
	}
	for (; *at && strchr("hlzjt", *at); at++)
		spec.size = spec.size == 'l' ? 'L' : spec.size == 'h' ? 'H' : *at;
	spec.letter = *at;
	spec.length = (size_t)(at - spec.start) + (*at != 0);
	return spec;
}

static size_t count_characters(const char *text, size_t length)
{
	size_t count = 0;

	for (size_t i = 0; i < length; i++)
		count += ((unsigned char)text[i] & 0xc0) != 0x80;
	return count;
}

static void add_string(struct strbuf *buf, const struct spec *spec, const char *text)
{
	struct strbuf escaped = { 0 };
	const char *shown = text ? text : "(null)";
	size_t length = spec->precision >= 0 ? strnlen(shown, (size_t)spec->precision) :
					       strlen(shown);

	quote_plain(&escaped, shown, length);
	size_t width = count_characters(escaped.text ? escaped.text : "", escaped.length);
	size_t pad = spec->width > 0 && (size_t)spec->width > width ? (size_t)spec->width - width :
								      0;

	for (size_t i = 0; i < pad && !spec->left; i++)
		strbuf_add(buf, " ", 1);
	strbuf_add(buf, escaped.text ? escaped.text : "", escaped.length);
	for (size_t i = 0; i < pad && spec->left; i++)
		strbuf_add(buf, " ", 1);
	buf->failed |= escaped.failed;
	strbuf_free(&escaped);
}

static int64_t read_signed(char size, struct arguments *arguments)
{
	switch (size) {
	case 'l':
		return va_arg(arguments->list, long);
	case 'L':
		return va_arg(arguments->list, long long);
	case 'z':
	case 't':
	case 'j':
		return va_arg(arguments->list, ssize_t);
	default:
		return va_arg(arguments->list, int);
	}
}

/* The C library gets the flags as they are written, and all numbers as long long. */
static void add_number(struct strbuf *buf, const struct spec *spec, struct arguments *arguments)
{
	size_t flags = strspn(spec->start + 1, "-+ #0");
	char format[32];
	int width = spec->width > 0 ? spec->width : 0;

	assert(flags < 8);
	if (strchr("fFgGeEaA", spec->letter)) {
		snprintf(format, sizeof(format), "%%%.*s*.*%c", (int)flags, spec->start + 1,
			 spec->letter);
		strbuf_printf(buf, format, width, spec->precision, va_arg(arguments->list, double));
		return;
	}
	bool is_signed = strchr("di", spec->letter) != NULL;
	long long value = is_signed || !strchr("uxXo", spec->letter) || spec->size != 0 ?
				  read_signed(spec->size, arguments) :
				  (long long)va_arg(arguments->list, unsigned);
	if (!is_signed && spec->size == 'h')
		value = (unsigned short)value;
	if (!is_signed && spec->size == 'H')
		value = (unsigned char)value;
	snprintf(format, sizeof(format), "%%%.*s*.*ll%c", (int)flags, spec->start + 1,
		 spec->letter);
	strbuf_printf(buf, format, width, spec->precision, value);
}

static void add_spec(struct strbuf *buf, const struct spec *spec, struct arguments *arguments)
{
	char letter[2] = { 0 };

	switch (spec->letter) {
	case '%':
		strbuf_add(buf, "%", 1);
		break;
	case 's':
		add_string(buf, spec, va_arg(arguments->list, const char *));
		break;
	case 'c':
		letter[0] = (char)va_arg(arguments->list, int);
		add_string(buf, &(struct spec){ .width = spec->width, .precision = 1 }, letter);
		break;
	case 'p':
		strbuf_printf(buf, "%p", va_arg(arguments->list, void *));
		break;
	default:
		assert(spec->letter && strchr("diuxXofFgGeEaA", spec->letter)); /* our own formats */
		add_number(buf, spec, arguments);
	}
}

void quote_vformat(struct strbuf *buf, const char *format, va_list args)
{
	struct arguments arguments;

	va_copy(arguments.list, args);
	strbuf_add(buf, "", 0);
	while (*format) {
		size_t plain = strcspn(format, "%");

		strbuf_add(buf, format, plain);
		format += plain;
		if (!*format)
			break;
		struct spec spec = read_spec(format, &arguments);
		add_spec(buf, &spec, &arguments);
		format += spec.length;
	}
	va_end(arguments.list);
}

void quote_format(struct strbuf *buf, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	quote_vformat(buf, format, args);
	va_end(args);
}
