/*
 * suggest.h - the known word nearest to a mistyped one.
 *
 * Pure. For few and short words (commands, options); names/spell.h does it for functions.
 */
#ifndef DYNTRACE_SUGGEST_H
#define DYNTRACE_SUGGEST_H

#include <stddef.h>

struct suggestion {
	const char *typed;
	const char *best; /* NULL: no candidate is near enough */
	size_t distance; /* from typed to best */
};

/* Offers a candidate; of equally near ones the first stays. */
void suggest_offer(struct suggestion *suggestion, const char *candidate);

#endif
