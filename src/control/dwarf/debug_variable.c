/* debug_variable.c - variables and enumerators by name. */
#include <dwarf.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "debug_state.h"

static bool is_variable(Dwarf_Die *die, const char *name)
{
	int tag = dwarf_tag(die);

	return (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter) &&
	       debug_is_called(die, name);
}

/* Searches blocks around pc; the innermost wins. */
static bool find_local(Dwarf_Die *parent, uint64_t pc, const char *name, unsigned depth,
		       Dwarf_Die *ret_die)
{
	bool found = false;
	Dwarf_Die die;

	if (depth > DEBUG_DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return false;
	do {
		int tag = dwarf_tag(&die);

		if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) &&
		    dwarf_haspc(&die, pc) > 0 && find_local(&die, pc, name, depth + 1, ret_die))
			return true;
		if (!found && is_variable(&die, name)) {
			*ret_die = die;
			found = true;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return found;
}

static bool has_place(Dwarf_Die *die)
{
	return dwarf_hasattr_integrate(die, DW_AT_location) ||
	       dwarf_hasattr_integrate(die, DW_AT_const_value);
}

/* Searches the top level of a unit and its namespaces. `placed`: accept only a variable with a
 * location, not one that was optimised out. */
static bool find_global(Dwarf_Die *parent, const char *name, bool placed, unsigned depth,
			Dwarf_Die *ret_die)
{
	Dwarf_Die die;

	if (depth > 8 || dwarf_child(parent, &die) != 0)
		return false;
	do {
		if (dwarf_tag(&die) == DW_TAG_namespace &&
		    find_global(&die, name, placed, depth + 1, ret_die))
			return true;
		if (is_variable(&die, name) &&
		    (placed ? has_place(&die) : !dwarf_hasattr(&die, DW_AT_declaration))) {
			*ret_die = die;
			return true;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

bool debug_find_variable(struct debug *debug, const struct debug_function *function, uint64_t pc,
			 const char *name, Dwarf_Die *ret_die)
{
	_cleanup_free_ bool *marks = NULL;

	if (function) {
		Dwarf_Die die = function->die, unit = function->unit;

		if (find_local(&die, pc, name, 0, ret_die) ||
		    find_global(&unit, name, true, 0, ret_die))
			return true;
	}
	if (!debug_index(debug))
		return false;
	marks = debug_mention(debug, name);
	for (size_t i = 0; marks && i < debug->units.count; i++) {
		if (marks[i] && find_global(debug_unit_die(debug, i), name, true, 0, ret_die))
			return true;
	}
	if (!function)
		return false;
	Dwarf_Die unit = function->unit;
	return find_global(&unit, name, false, 0, ret_die);
}

/* label, or enumeration::label */
static bool is_label(Dwarf_Die *enumeration, const char *label, const char *typed)
{
	size_t length = strlen(typed), own = strlen(label);
	char scope[256];

	if (length < own || strcmp(typed + length - own, label) != 0)
		return false;
	if (length == own)
		return true;
	length -= own;
	if (length < 3 || length - 2 >= sizeof(scope) || typed[length - 1] != ':' ||
	    typed[length - 2] != ':')
		return false;
	memcpy(scope, typed, length - 2);
	scope[length - 2] = '\0';
	return debug_is_called(enumeration, scope);
}

static bool find_label(Dwarf_Die *parent, const char *name, unsigned depth, int64_t *ret_value)
{
	Dwarf_Die die;

	if (depth > 8 || dwarf_child(parent, &die) != 0)
		return false;
	do {
		struct member_walk walk = { .started = false };
		struct type type = { .kind = TYPE_ENUM, .die = die };
		const char *label;
		int tag = dwarf_tag(&die);

		if ((tag == DW_TAG_namespace || tag == DW_TAG_structure_type ||
		     tag == DW_TAG_class_type) &&
		    find_label(&die, name, depth + 1, ret_value))
			return true;
		while (tag == DW_TAG_enumeration_type &&
		       type_next_label(&type, &walk, &label, ret_value)) {
			if (is_label(&die, label, name))
				return true;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

bool debug_find_label(const struct debug_function *function, const char *name, int64_t *ret_value)
{
	Dwarf_Die unit = function->unit;

	return find_label(&unit, name, 0, ret_value);
}
