/*
 * quote.h - append foreign text to a strbuf, so that it can be printed.
 *
 * Foreign is all text that this program didn't write: names of processes, files, symbols, fields,
 * events and tracepoints, strings of a target. All of it is printed by way of these functions;
 * tests/e2e/test_foreign_text.py finds code that prints otherwise.
 *
 * Printable UTF-8 stays as it is. Bytes that aren't UTF-8, and characters that act on a terminal or
 * show text in another order (ESC, newline, C1 controls, marks of direction), are escaped.
 */
#ifndef DYNTRACE_QUOTE_H
#define DYNTRACE_QUOTE_H

#include <stdarg.h>

#include "strbuf.h"

/* In quotes, as in C: \n, \x1b, ... */
void quote_c(struct strbuf *buf, const char *bytes, size_t length);
/* Follows JSON's grammar; bytes that aren't UTF-8 become U+FFFD. */
void quote_json(struct strbuf *buf, const char *bytes, size_t length);
/* Without quotes; a backslash stays, so text that was escaped before stays as it is. */
void quote_plain(struct strbuf *buf, const char *bytes, size_t length);
/* Escapes several lines, which stay lines. */
void quote_lines(struct strbuf *buf, const char *text);

/* printf whose strings (%s, %c) are escaped as by quote_plain. The format's own text stays. */
void quote_vformat(struct strbuf *buf, const char *format, va_list args);
__attribute__((format(printf, 2, 3))) void quote_format(struct strbuf *buf, const char *format,
							...);

#endif
