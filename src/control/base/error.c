#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quote.h"

struct error {
	enum error_kind kind;
	char *text;
};

static struct error out_of_memory = { ERROR_FAILED, (char *)"out of memory" };

static struct error *error_take_text(enum error_kind kind, char *text)
{
	struct error *error = text ? malloc(sizeof(*error)) : NULL;

	if (!error) {
		free(text);
		return &out_of_memory;
	}
	*error = (struct error){ kind, text };
	return error;
}

static char *format_text(const char *format, va_list args)
{
	struct strbuf text = { 0 };

	quote_vformat(&text, format, args);
	if (text.failed)
		strbuf_free(&text);
	return text.text;
}

struct error *error_new(enum error_kind kind, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	char *text = format_text(format, args);
	va_end(args);
	return error_take_text(kind, text);
}

struct error *error_repeat(enum error_kind kind, const char *text)
{
	struct strbuf lines = { 0 };

	quote_lines(&lines, text);
	if (lines.failed)
		strbuf_free(&lines);
	return error_take_text(kind, lines.text);
}

static enum error_kind kind_of_errno(int number)
{
	if (number == EPERM || number == EACCES)
		return ERROR_NOT_PERMITTED;
	if (number == ESRCH)
		return ERROR_GONE;
	return ERROR_FAILED;
}

struct error *error_errno(int number, const char *format, ...)
{
	char *whole = NULL;
	va_list args;

	va_start(args, format);
	char *text = format_text(format, args);
	va_end(args);
	if (text && asprintf(&whole, "%s: %s", text, strerror(number)) < 0)
		whole = NULL;
	free(text);
	return error_take_text(kind_of_errno(number), whole);
}

struct error *error_wrap(struct error *error, const char *format, ...)
{
	char *whole = NULL;
	va_list args;

	if (!error || error == &out_of_memory)
		return error;
	va_start(args, format);
	char *clause = format_text(format, args);
	va_end(args);
	if (clause && asprintf(&whole, "%s: %s", clause, error->text) < 0)
		whole = NULL;
	free(clause);
	if (whole) {
		free(error->text);
		error->text = whole;
	}
	return error;
}

enum error_kind error_kind(const struct error *error)
{
	return error->kind;
}

const char *error_text(const struct error *error)
{
	return error->text;
}

void error_free(struct error *error)
{
	if (!error || error == &out_of_memory)
		return;
	free(error->text);
	free(error);
}
