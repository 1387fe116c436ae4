/*
 * error.h - errors as sentences.
 *
 * A function that can fail returns struct error *: NULL is success. The function that knows the
 * cause writes the sentence; each layer above may put one clause before it. The receiver owns the
 * error and ends it with error_free (or the _cleanup_error_ attribute).
 *
 * Strings that are formatted into a sentence are escaped (quote.h): foreign text in an error can't
 * act on a terminal, and makes no line of its own.
 *
 * Making an error never fails: without memory these functions return a static one.
 */
#ifndef DYNTRACE_ERROR_H
#define DYNTRACE_ERROR_H

#include <stdbool.h>

enum error_kind {
	ERROR_FAILED, /* anything else */
	ERROR_USAGE, /* wrong arguments: exit 2 */
	ERROR_NOT_FOUND, /* no such command: exit 127 */
	ERROR_NOT_PERMITTED, /* exit 126 */
	ERROR_GONE, /* the target ended meanwhile */
	ERROR_REFUSED, /* a site can't be placed; the text says why */
	ERROR_INTERRUPTED, /* by the user: interrupt.h */
	ERROR_FULL, /* recording stopped before the disk is full */
	ERROR_UNFIT, /* no thread of the target can be borrowed just now; nothing has changed */
};

struct error;

__attribute__((format(printf, 2, 3), warn_unused_result))
struct error *error_new(enum error_kind kind, const char *format, ...);

/* The text of an error that was made elsewhere. Its lines stay lines. */
__attribute__((warn_unused_result))
struct error *error_repeat(enum error_kind kind, const char *text);

/* Appends ": strerror(number)". EPERM and EACCES become ERROR_NOT_PERMITTED, ESRCH ERROR_GONE. */
__attribute__((format(printf, 2, 3), warn_unused_result))
struct error *error_errno(int number, const char *format, ...);

/* Puts "clause: " before the sentence of `error`, and returns the same error. NULL stays NULL. */
__attribute__((format(printf, 2, 3), warn_unused_result))
struct error *error_wrap(struct error *error, const char *format, ...);

enum error_kind error_kind(const struct error *error);
const char *error_text(const struct error *error);
void error_free(struct error *error);

#endif
