/*
 * quote.h - strings of others as text, in quotes, at the end of a strbuf.
 */
#ifndef DYNTRACE_QUOTE_H
#define DYNTRACE_QUOTE_H

#include "strbuf.h"

/* What could act on a terminal or isn't UTF-8 becomes \n, \x1b, ... */
void quote_c(struct strbuf *buf, const char *bytes, size_t length);
/* As JSON's grammar says, with U+FFFD for what isn't UTF-8. */
void quote_json(struct strbuf *buf, const char *bytes, size_t length);

#endif
