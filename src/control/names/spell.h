/*
 * spell.h - names near a misspelt one, and how to offer them.
 */
#ifndef DYNTRACE_SPELL_H
#define DYNTRACE_SPELL_H

#include "control/base/strbuf.h"
#include "control/elf/sym.h"

#define SPELL_FAR 1000
#define SPELL_NEAR_MAX 3

/* How unlike two names are; SPELL_FAR: not near at all. */
unsigned spell_distance(const char *name, const char *candidate);

/* The nearest names so far, best first. Borrowed. */
struct spell_near {
	const char *names[SPELL_NEAR_MAX];
	unsigned distances[SPELL_NEAR_MAX];
	size_t count;
};

void spell_offer(struct spell_near *near, const char *wanted, const char *name);
void spell_offer_symbols(struct spell_near *near, const char *wanted, const struct symtab *symtab);
/* Adds "; did you mean a, b or c?", or nothing. */
void spell_print(const struct spell_near *near, struct strbuf *buf);

#endif
