/*
 * debug_inlined.c - where the inlined copies of a function are.
 *
 * A copy refers to its abstract function. Each unit that inlines a function of a header has an
 * abstract function of its own. Two of them are the same function if their linkage names are equal,
 * or, in C, which has no linkage names, if both are external or come from the same line of the same
 * file. With link-time optimisation copies refer to a function of another unit.
 */
#include <dwarf.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "debug_state.h"

#define ABSTRACT_MAX 64

struct wanted {
	struct debug *debug;
	const char *name; /* as typed, or the name of `abstract` */
	Dwarf_Die abstract; /* the function given, if any */
	bool has_abstract;
	struct debug_addresses *to;
	bool failed;
};

static const char *linkage_name(Dwarf_Die *die)
{
	static const unsigned names[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		Dwarf_Attribute attribute;

		if (dwarf_attr_integrate(die, names[i], &attribute))
			return dwarf_formstring(&attribute);
	}
	return NULL;
}

static bool same_line(struct debug *debug, Dwarf_Die *a, Dwarf_Die *b)
{
	const char *file, *other;
	int line, other_line;

	if (dwarf_decl_line(a, &line) != 0 || dwarf_decl_line(b, &other_line) != 0 ||
	    line != other_line)
		return false;
	debug_need_lines(debug);
	file = dwarf_decl_file(a);
	other = dwarf_decl_file(b);
	return file && other && strcmp(file, other) == 0;
}

static bool is_same_function(const struct wanted *wanted, Dwarf_Die *die)
{
	Dwarf_Die abstract = wanted->abstract;
	const char *name, *linkage, *other;

	if (die->addr == abstract.addr)
		return true;
	name = debug_name(die);
	if (!name || strcmp(name, wanted->name) != 0)
		return false;
	linkage = linkage_name(die);
	other = linkage_name(&abstract);
	if (linkage || other)
		return linkage && other && strcmp(linkage, other) == 0;
	return (dwarf_hasattr_integrate(die, DW_AT_external) &&
		dwarf_hasattr_integrate(&abstract, DW_AT_external)) ||
	       same_line(wanted->debug, die, &abstract);
}

static bool is_wanted(const struct wanted *wanted, Dwarf_Die *die)
{
	return wanted->has_abstract ? is_same_function(wanted, die) :
				      debug_is_called(die, wanted->name);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void add_copy(struct wanted *wanted, Dwarf_Die *die)
{
	Dwarf_Addr address, base, end;

	if (dwarf_entrypc(die, &address) != 0 && dwarf_ranges(die, 0, &base, &address, &end) <= 0)
		return;
	if (address &&
	    !vec_push(wanted->to, (struct debug_address){ .address = address,
							  .inlined = dwarf_dieoffset(die) }))
		wanted->failed = true;
}

static bool same_number(Dwarf_Die *a, unsigned name, Dwarf_Die *b, unsigned other)
{
	Dwarf_Attribute attribute;
	Dwarf_Word x, y;

	return dwarf_formudata(dwarf_attr(a, name, &attribute), &x) == 0 &&
	       dwarf_formudata(dwarf_attr_integrate(b, other, &attribute), &y) == 0 && x == y;
}

/* The compiler split the function and put a piece back: the piece is "called" where the function is
 * declared. The function's own entry is the call. */
static bool is_put_back(Dwarf_Die *copy, Dwarf_Die *origin)
{
	return same_number(copy, DW_AT_call_line, origin, DW_AT_decl_line) &&
	       same_number(copy, DW_AT_call_column, origin, DW_AT_decl_column) &&
	       same_number(copy, DW_AT_call_file, origin, DW_AT_decl_file);
}

static bool may_hold_code(int tag)
{
	return tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
	       tag == DW_TAG_subprogram || tag == DW_TAG_namespace || tag == DW_TAG_class_type ||
	       tag == DW_TAG_structure_type;
}

static void walk_copies(struct wanted *wanted, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die, origin;

	if (depth > DEBUG_DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_inlined_subroutine && debug_origin(&die, &origin) &&
		    is_wanted(wanted, &origin) && !is_put_back(&die, &origin))
			add_copy(wanted, &die);
		if (may_hold_code(tag))
			walk_copies(wanted, &die, depth + 1);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static bool may_inline(const struct debug *debug, size_t unit)
{
	return !debug->sections ||
	       sections_may_inline(debug->sections, debug->units.items[unit].abbreviations);
}

/* ---- abstract functions ---------------------------------------------------------------------- */

struct abstracts {
	uint64_t offsets[ABSTRACT_MAX];
	size_t count; /* found; may exceed ABSTRACT_MAX */
};

static void walk_abstracts(const struct wanted *wanted, Dwarf_Die *parent, unsigned depth,
			   struct abstracts *abstracts)
{
	Dwarf_Die die;

	if (depth > DEBUG_DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram && is_wanted(wanted, &die)) {
			if (abstracts->count < ABSTRACT_MAX)
				abstracts->offsets[abstracts->count] = dwarf_dieoffset(&die);
			abstracts->count++;
		}
		if (may_hold_code(tag) && tag != DW_TAG_inlined_subroutine &&
		    tag != DW_TAG_lexical_block)
			walk_abstracts(wanted, &die, depth + 1, abstracts);
	} while (dwarf_siblingof(&die, &die) == 0);
}

/* Also marks units that don't have the name but refer to a DIE that has. */
static void mark_references(const struct wanted *wanted, bool *marks)
{
	struct debug *debug = wanted->debug;
	struct abstracts abstracts = { .count = 0 };

	if (!debug->sections || !sections_are_tangled(debug->sections))
		return;
	for (size_t i = 0; i < debug->units.count; i++) {
		if (marks[i])
			walk_abstracts(wanted, debug_unit_die(debug, i), 0, &abstracts);
	}
	if (abstracts.count > ABSTRACT_MAX)
		memset(marks, true, debug->units.count * sizeof(*marks));
	for (size_t i = 0; i < abstracts.count && i < ABSTRACT_MAX; i++)
		debug_mention_references(debug, abstracts.offsets[i], marks);
}

void debug_find_inlined(struct debug *debug, const struct debug_function *function,
			const char *name, struct debug_addresses *ret_addresses)
{
	struct wanted wanted = { .debug = debug, .name = name, .to = ret_addresses };
	_cleanup_free_ bool *marks = NULL;

	*ret_addresses = (struct debug_addresses){ 0 };
	if (function) {
		Dwarf_Die die = function->die;

		wanted.name = debug_name(&die);
		if (!debug_origin(&die, &wanted.abstract))
			wanted.abstract = die;
		wanted.has_abstract = true;
	}
	if (!wanted.name || !debug_index(debug))
		return;
	marks = debug_mention(debug, wanted.name);
	if (marks)
		mark_references(&wanted, marks);
	for (size_t i = 0; marks && i < debug->units.count; i++) {
		if (marks[i] && may_inline(debug, i))
			walk_copies(&wanted, debug_unit_die(debug, i), 0);
	}
}

bool debug_inlined_die(struct debug *debug, uint64_t offset, Dwarf_Die *ret_die)
{
	if (debug->sections)
		sections_need_unit(debug->sections, offset);
	return dwarf_offdie(debug->dwarf, offset, ret_die) &&
	       dwarf_tag(ret_die) == DW_TAG_inlined_subroutine;
}
