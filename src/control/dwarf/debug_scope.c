#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "debug_state.h"

/* Where the last part of a::b<c::d>::e begins, of what ends at `end`. */
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

/* Spaces don't count, nor do template arguments that weren't typed. */
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

/* The die that is inside its class or namespace: what this one was made of, or where it was
 * declared. */
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

/* Are the scopes around it, from the innermost, what was typed before its own name? Those without a
 * name don't count. */
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
