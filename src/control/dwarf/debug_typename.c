/*
 * debug_typename.c - types by the names that users write in casts.
 */
#include <dwarf.h>

#include "control/base/cleanup.h"
#include "debug_state.h"

#define SCOPES_MAX 8

static const struct {
	int tag;
	enum type_kind kind;
} tags[] = {
	{ DW_TAG_structure_type, TYPE_STRUCT }, { DW_TAG_class_type, TYPE_STRUCT },
	{ DW_TAG_union_type, TYPE_UNION },	{ DW_TAG_enumeration_type, TYPE_ENUM },
	{ DW_TAG_typedef, TYPE_VOID },		{ DW_TAG_base_type, TYPE_VOID },
	{ DW_TAG_unspecified_type, TYPE_VOID }, { DW_TAG_template_alias, TYPE_VOID },
};

/* TYPE_VOID: any kind. */
static bool is_kind(int tag, enum type_kind kind)
{
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		if (tags[i].tag == tag)
			return kind == TYPE_VOID || tags[i].kind == kind;
	}
	return false;
}

static bool is_scope(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_class_type || tag == DW_TAG_union_type || tag == DW_TAG_lexical_block;
}

/* Searches a unit, a function, or a scope in them. *ret_declared: only a declaration was found. */
static bool find_named(Dwarf_Die *parent, const char *name, enum type_kind kind, unsigned depth,
		       Dwarf_Die *ret_die, bool *ret_declared)
{
	Dwarf_Die die;

	if (depth > SCOPES_MAX || dwarf_child(parent, &die) != 0)
		return false;
	do {
		int tag = dwarf_tag(&die);
		bool is_it = is_kind(tag, kind) && debug_is_called(&die, name);

		if (is_it && !debug_has_flag(&die, DW_AT_declaration)) {
			*ret_die = die;
			return true;
		}
		if (is_it && !*ret_declared) {
			*ret_die = die;
			*ret_declared = true;
		}
		if (is_scope(tag) && find_named(&die, name, kind, depth + 1, ret_die, ret_declared))
			return true;
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

/* Searches the file shared by several files (dwz). */
static bool find_shared(struct debug *debug, const char *name, enum type_kind kind,
			Dwarf_Die *ret_die, bool *ret_declared)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;

	if (!debug->alternative.dwarf)
		return false;
	while (dwarf_get_units(debug->alternative.dwarf, unit, &unit, NULL, NULL, &die, NULL) ==
	       0) {
		if (find_named(&die, name, kind, 0, ret_die, ret_declared))
			return true;
	}
	return false;
}

static bool find_anywhere(struct debug *debug, const char *name, enum type_kind kind,
			  Dwarf_Die *ret_die, bool *ret_declared)
{
	_cleanup_free_ bool *marks = debug_index(debug) ? debug_mention(debug, name) : NULL;

	for (size_t i = 0; marks && i < debug->units.count; i++) {
		if (marks[i] &&
		    find_named(debug_unit_die(debug, i), name, kind, 0, ret_die, ret_declared))
			return true;
	}
	return find_shared(debug, name, kind, ret_die, ret_declared);
}

bool debug_find_type(struct debug *debug, const struct debug_function *function, const char *name,
		     enum type_kind kind, struct type *ret_type)
{
	bool declared = false, found = false;
	Dwarf_Die die;

	if (function) {
		Dwarf_Die body = function->die, unit = function->unit;

		found = find_named(&body, name, kind, 0, &die, &declared) ||
			find_named(&unit, name, kind, 0, &die, &declared);
	}
	if (!found && !find_anywhere(debug, name, kind, &die, &declared) && !declared)
		return false;
	type_from_die(&die, ret_type);
	return true;
}

void type_add_pointer(const struct type *base, struct type *ret_type)
{
	struct type type = {
		.kind = TYPE_POINTER, .size = 8, .die = base->die, .base = base->base
	};

	if (!base->base && !base->die.addr)
		type.base = base;
	type.pointers = (uint8_t)(base->pointers + 1);
	*ret_type = type;
}
