/* debug_scope.c - compares a typed name with a DIE and the scopes around it. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "debug_state.h"

/* The start of the last part of a::b<c::d>::e, which ends at `end`. */
static const char *last_part(const char *typed, const char *end)
{
	int depth = 0;

	for (const char *at = end; at > typed; at--) {
		depth += at[-1] == '>';
		depth -= at[-1] == '<';
		if (depth == 0 && at - typed > 2 && at[-1] == ':' && at[-2] == ':')
			return at;
	}
	return typed;
}

/* Compares without spaces, and without template arguments that weren't typed. */
static bool is_same(const char *name, const char *typed, const char *end)
{
	for (;; name++, typed++) {
		name += strspn(name, " ");
		while (typed < end && *typed == ' ')
			typed++;
		if (typed == end)
			return *name == '\0' || *name == '<';
		if (*name != *typed)
			return false;
	}
}

/* The DIE inside its class or namespace: the origin of this DIE, or its declaration. */
static Dwarf_Die declared(Dwarf_Die *die)
{
	static const unsigned ways[] = { DW_AT_abstract_origin, DW_AT_specification };
	Dwarf_Die at = *die;

	for (size_t i = 0; i < 2; i++) {
		Dwarf_Attribute attribute;
		Dwarf_Die next;

		if (dwarf_attr(&at, ways[i], &attribute) && dwarf_formref_die(&attribute, &next))
			at = next;
	}
	return at;
}

/* Do the scopes around the DIE, from the innermost, match what was typed before its name? Unnamed
 * scopes don't count. */
static bool is_within(Dwarf_Die *die, const char *typed, const char *end)
{
	_cleanup_free_ Dwarf_Die *scopes = NULL;
	Dwarf_Die at = declared(die);
	int count = dwarf_getscopes_die(&at, &scopes);

	for (int i = 1; i < count && end > typed; i++) {
		const char *name = debug_name(&scopes[i]), *part;

		if (!name || dwarf_tag(&scopes[i]) == DW_TAG_compile_unit)
			continue;
		end -= 2; /* :: */
		part = last_part(typed, end);
		if (!is_same(name, part, end))
			return false;
		end = part;
	}
	return end == typed;
}

bool debug_is_called(Dwarf_Die *die, const char *typed)
{
	const char *name = debug_name(die), *end = typed + strlen(typed),
		   *part = last_part(typed, end);

	return name && is_same(name, part, end) && (part == typed || is_within(die, typed, part));
}
