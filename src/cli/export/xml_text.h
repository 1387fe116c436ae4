/*
 * xml_text.h - foreign text in XML: first escaped as for a terminal, then its special characters.
 *
 * Failure is sticky in the strbuf.
 */
#ifndef DYNTRACE_XML_TEXT_H
#define DYNTRACE_XML_TEXT_H

#include "control/base/strbuf.h"

/* Appends the text, without a character that XML forbids or that ends an element or an attribute.
 * Not more than `most` characters: the last ones become "..". 0: all of them. */
void xml_text(struct strbuf *text, const char *name, size_t most);

#endif
