/*
 * spell.c - names near a misspelt one: equal except for case, then few edits apart (a letter more,
 * fewer, other, or two swapped), then one within the other.
 */
#include "spell.h"

#include <ctype.h>
#include <string.h>

#define LENGTH_MAX 128
#define FAR 1000 /* not near at all */
/* Distance of a name that contains the other; how much longer it is comes on top. */
#define INSIDE 100

static unsigned min2(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Edits that turn a into b, ignoring case; FAR: more than `limit`. */
static unsigned edits(const char *a, size_t a_length, const char *b, size_t b_length,
		      unsigned limit)
{
	unsigned rows[3][LENGTH_MAX + 1];
	unsigned *before = rows[0], *above = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b_length; j++)
		above[j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned best = row[0] = (unsigned)i;
		unsigned *next = before;

		for (size_t j = 1; j <= b_length; j++) {
			int x = tolower((unsigned char)a[i - 1]),
			    y = tolower((unsigned char)b[j - 1]);

			row[j] = min2(min2(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]))
				row[j] = min2(row[j], before[j - 2] + 1);
			best = min2(best, row[j]);
		}
		if (best > limit)
			return FAR;
		before = above;
		above = row;
		row = next;
	}
	return above[b_length] <= limit ? above[b_length] : FAR;
}

static unsigned distance_of(const char *name, const char *candidate)
{
	size_t length = strnlen(name, LENGTH_MAX + 1), other = strnlen(candidate, LENGTH_MAX + 1);
	size_t gap = length > other ? length - other : other - length;
	unsigned limit = length < 8 ? 1 : (unsigned)length / 4;
	unsigned distance = FAR;

	if (length > LENGTH_MAX || other > LENGTH_MAX || length == 0)
		return FAR;
	if (gap <= limit)
		distance = edits(name, length, candidate, other, limit);
	if (distance == FAR && ((length >= 3 && strcasestr(candidate, name)) ||
				(other >= 4 && strcasestr(name, candidate))))
		distance = INSIDE + (unsigned)gap;
	return distance;
}

void spell_offer(struct spell_near *near, const char *wanted, const char *name)
{
	unsigned distance = distance_of(wanted, name);
	size_t at = near->count;

	for (size_t i = 0; i < near->count; i++) {
		if (strcmp(near->names[i], name) == 0)
			return;
	}
	while (at > 0 && near->distances[at - 1] > distance)
		at--;
	if (distance == FAR || at == SPELL_NEAR_MAX)
		return;
	near->count += near->count < SPELL_NEAR_MAX;
	for (size_t i = near->count - 1; i > at; i--) {
		near->names[i] = near->names[i - 1];
		near->distances[i] = near->distances[i - 1];
	}
	near->names[at] = name;
	near->distances[at] = distance;
}

void spell_offer_symbols(struct spell_near *near, const char *wanted, const struct symtab *symtab)
{
	for (size_t i = 0; i < symtab_count(symtab); i++) {
		const struct symbol *symbol = symtab_get(symtab, i);

		if (symbol->kind == SYMBOL_FUNCTION)
			spell_offer(near, wanted, symbol->name);
	}
}

void spell_print(const struct spell_near *near, struct strbuf *buf)
{
	for (size_t i = 0; i < near->count; i++)
		strbuf_printf(buf, "%s%s",
			      i == 0		    ? "; did you mean "
			      : i + 1 < near->count ? ", "
						    : " or ",
			      near->names[i]);
	if (near->count)
		strbuf_printf(buf, "?");
}
