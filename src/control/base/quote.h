/*
 * quote.h - append foreign strings to a strbuf, quoted and escaped.
 */
#ifndef DYNTRACE_QUOTE_H
#define DYNTRACE_QUOTE_H

#include "strbuf.h"

/* Escapes bytes that could act on a terminal or aren't UTF-8, as \n, \x1b, ... */
void quote_c(struct strbuf *buf, const char *bytes, size_t length);
/* Follows JSON's grammar; bytes that aren't UTF-8 become U+FFFD. */
void quote_json(struct strbuf *buf, const char *bytes, size_t length);

#endif
