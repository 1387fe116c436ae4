/*
 * spell.h - names near a misspelt one, and how to offer them.
 */
#ifndef DYNTRACE_SPELL_H
#define DYNTRACE_SPELL_H

#include "control/base/strbuf.h"
#include "control/elf/symtab.h"

#define SPELL_NEAR_MAX 3

/* The nearest names so far, best first, each once. Borrowed. */
struct spell_near {
	const char *names[SPELL_NEAR_MAX];
	unsigned distances[SPELL_NEAR_MAX];
	size_t count;
};

/* Takes the name in if it is near the wanted one, and nearer than the last of SPELL_NEAR_MAX. */
void spell_offer(struct spell_near *near, const char *wanted, const char *name);
/* Offers every function of the file. */
void spell_offer_symbols(struct spell_near *near, const char *wanted, const struct symtab *symtab);
/* Adds "; did you mean a, b or c?", or nothing. */
void spell_print(const struct spell_near *near, struct strbuf *buf);

#endif
