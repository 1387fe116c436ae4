/*
 * suggest.h - the word that was probably meant.
 *
 * Pure. Words are few and short (commands, options); names/spell.h does it for functions.
 */
#ifndef DYNTRACE_SUGGEST_H
#define DYNTRACE_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *typed;
	const char *best; /* NULL: nothing near enough */
	size_t distance; /* of the best */
};

/* Offers one candidate; the first of the nearest stays. */
void suggest_offer(struct suggestion *suggestion, const char *candidate);

#endif
