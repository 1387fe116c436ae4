/*
 * debug_function.c - from an address to its function, in two steps: the ranges of all units, read
 * once; then the functions of one unit, read on first use. The first answer costs little even in
 * hundreds of megabytes of DWARF.
 */
#include <assert.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "debug_state.h"

const char *debug_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;

	if (!dwarf_attr_integrate(die, DW_AT_name, &attribute))
		return NULL;
	return dwarf_formstring(&attribute);
}

static bool add_ranges(struct debug *debug, Dwarf_Die *die, uint32_t unit)
{
	Dwarf_Addr base, start, end;

	for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
		struct debug_range range = { start, end, unit };

		if (start < end && start != 0 && !vec_push(&debug->ranges, range))
			return false;
	}
	return true;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct debug_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static bool read_units(struct debug *debug)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Off at = 0, next, abbreviations = 0;
	Dwarf_Die die, split;
	uint8_t type;

	while (dwarf_get_units(debug->dwarf, cu, &cu, NULL, &type, &die, &split) == 0) {
		struct debug_unit unit = { .lines = die, .die = die };

		if (dwarf_next_unit(debug->dwarf, at, &next, NULL, NULL, &abbreviations, NULL, NULL,
				    NULL, NULL) == 0)
			at = next;
		unit.abbreviations = abbreviations;
		debug->has_parts |= type == DW_UT_partial || dwarf_tag(&die) == DW_TAG_partial_unit;
		if (type != DW_UT_compile && type != DW_UT_skeleton)
			continue;
		if (type == DW_UT_skeleton && dwarf_tag(&split) == DW_TAG_compile_unit)
			unit.die = split;
		if (!vec_push(&debug->units, unit) ||
		    !add_ranges(debug, &die, (uint32_t)debug->units.count - 1))
			return false;
	}
	return true;
}

bool debug_index(struct debug *debug)
{
	if (debug->indexed)
		return true;
	debug->indexed = read_units(debug);
	if (debug->ranges.count)
		qsort(debug->ranges.items, debug->ranges.count, sizeof(*debug->ranges.items),
		      compare_ranges);
	return debug->indexed;
}

struct debug_unit *debug_unit_at(struct debug *debug, uint64_t address)
{
	size_t n;

	if (!debug_index(debug))
		return NULL;
	n = sorted_count(debug->ranges.count, i, debug->ranges.items[i].start <= address);
	if (n == 0 || address >= debug->ranges.items[n - 1].end)
		return NULL;
	assert(debug->ranges.items[n - 1].unit < debug->units.count); /* Y1 */
	return &debug->units.items[debug->ranges.items[n - 1].unit];
}

/* ---- functions of a unit --------------------------------------------------------------------- */

static void add_function(struct debug_unit *unit, Dwarf_Die *die)
{
	struct debug_function function = { .die = *die, .unit = unit->die };
	Dwarf_Addr base, start, end;
	Dwarf_Addr entry;

	if (dwarf_ranges(die, 0, &base, &start, &end) <= 0 || start >= end)
		return;
	function.low = start;
	function.high = end;
	if (dwarf_entrypc(die, &entry) == 0 && entry != start) {
		/* The first range may be a cold part: take the range with the entry. */
		for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &start, &end)) > 0;) {
			if (entry >= start && entry < end) {
				function.low = entry;
				function.high = end;
			}
		}
	}
	(void)!vec_push(&unit->functions, function);
}

/* Functions may be in namespaces, classes and other functions. */
static void walk_functions(struct debug_unit *unit, Dwarf_Die *parent, unsigned depth)
{
	Dwarf_Die die;

	if (depth > DEBUG_DEPTH_MAX || dwarf_child(parent, &die) != 0)
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			add_function(unit, &die);
			walk_functions(unit, &die, depth + 1);
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			walk_functions(unit, &die, depth + 1);
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
}

static int compare_functions(const void *a, const void *b)
{
	const struct debug_function *x = a, *y = b;

	return (x->low > y->low) - (x->low < y->low);
}

Dwarf_Die *debug_unit_die(struct debug *debug, size_t index)
{
	struct debug_unit *unit = &debug->units.items[index];

	if (debug->sections)
		sections_need_unit(debug->sections, dwarf_dieoffset(&unit->die));
	return &unit->die;
}

void debug_need_lines(struct debug *debug)
{
	if (debug->sections)
		sections_need(debug->sections, SECTIONS_LINES);
}

void debug_need_locations(struct debug *debug)
{
	if (debug->sections)
		sections_need(debug->sections, SECTIONS_LOCATIONS);
}

/* Reads the functions of a unit on first use. */
static void read_functions(struct debug *debug, struct debug_unit *unit)
{
	if (unit->functions_read)
		return;
	unit->functions_read = true;
	debug_unit_die(debug, (size_t)(unit - debug->units.items));
	walk_functions(unit, &unit->die, 0);
	if (unit->functions.count)
		qsort(unit->functions.items, unit->functions.count, sizeof(*unit->functions.items),
		      compare_functions);
}

bool debug_function_at(struct debug *debug, uint64_t address, struct debug_function *ret_function)
{
	struct debug_unit *unit = debug_unit_at(debug, address);
	size_t n;

	if (!unit)
		return false;
	read_functions(debug, unit);
	n = sorted_count(unit->functions.count, i, unit->functions.items[i].low <= address);
	for (size_t i = n; i-- > 0 && n - i < DEBUG_DEPTH_MAX;) {
		const struct debug_function *function = &unit->functions.items[i];

		assert(function->low <= address); /* Y2 */
		if (address == function->low || address < function->high) {
			*ret_function = *function;
			return true;
		}
	}
	return false;
}

bool debug_function_is_rust(const struct debug_function *function)
{
	Dwarf_Die unit = function->unit;

	return dwarf_srclang(&unit) == DW_LANG_Rust;
}

bool debug_function_has_abi(const struct debug_function *function)
{
	static const int languages[] = {
		0, /* not given */
		DW_LANG_C89,
		DW_LANG_C,
		DW_LANG_C99,
		DW_LANG_C11,
		DW_LANG_C_plus_plus,
		DW_LANG_C_plus_plus_03,
		DW_LANG_C_plus_plus_11,
		DW_LANG_C_plus_plus_14,
		DW_LANG_ObjC,
		DW_LANG_ObjC_plus_plus,
		DW_LANG_Ada83,
		DW_LANG_Ada95,
		DW_LANG_Rust,
		DW_LANG_Mips_Assembler,
		DW_LANG_UPC,
		DW_LANG_OpenCL,
		0x2a,
		0x2b,
		0x2c, /* DWARF 6: C++17, C++20, C17 */
		0x2e,
		0x2f,
		0x3a,
		0x3e, /* Ada 2005 and 2012, C++23, C23 */
	};
	Dwarf_Die unit = function->unit;
	int language = dwarf_srclang(&unit);

	for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++) {
		if (language == languages[i] || language < 0)
			return true;
	}
	return false;
}

bool debug_function_is_assembly(const struct debug_function *function)
{
	Dwarf_Die unit = function->unit;

	return dwarf_srclang(&unit) == DW_LANG_Mips_Assembler;
}

bool debug_function_is_llvm(const struct debug_function *function)
{
	Dwarf_Die unit = function->unit;
	Dwarf_Attribute attribute;
	const char *producer = dwarf_attr_integrate(&unit, DW_AT_producer, &attribute) ?
				       dwarf_formstring(&attribute) :
				       NULL;

	return producer && (strstr(producer, "clang") || strstr(producer, "LLVM"));
}

bool debug_function_is_changed(const struct debug_function *function)
{
	Dwarf_Die die = function->die;
	Dwarf_Attribute attribute;
	Dwarf_Word convention;

	return dwarf_attr_integrate(&die, DW_AT_calling_convention, &attribute) &&
	       dwarf_formudata(&attribute, &convention) == 0 && convention == DW_CC_nocall;
}

bool debug_function_is_unprototyped(const struct debug_function *function)
{
	static const int languages[] = { DW_LANG_C89, DW_LANG_C, DW_LANG_C99, DW_LANG_C11 };
	Dwarf_Die die = function->die, unit = function->unit;
	int language = dwarf_srclang(&unit);

	for (size_t i = 0; i < sizeof(languages) / sizeof(languages[0]); i++) {
		if (language == languages[i])
			return !dwarf_hasattr_integrate(&die, DW_AT_prototyped);
	}
	return false;
}

/* ---- parameters ------------------------------------------------------------------------------ */

bool debug_origin(Dwarf_Die *die, Dwarf_Die *ret_origin)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, DW_AT_abstract_origin, &attribute) &&
	       dwarf_formref_die(&attribute, ret_origin);
}

static bool next_formal(Dwarf_Die *function, struct member_walk *walk)
{
	for (;;) {
		int status = walk->started ? dwarf_siblingof(&walk->die, &walk->die)
					   : dwarf_child(function, &walk->die);

		walk->started = true;
		if (status != 0)
			return false;
		if (dwarf_tag(&walk->die) == DW_TAG_formal_parameter)
			return true;
	}
}

/*
 * The abstract function that a concrete one is an instance of. Concrete parameters refer to
 * abstract ones. gcc lists the concrete ones in any order, some of them twice and some not at all;
 * the abstract ones are in source order. False: no abstract function, or the concrete one has
 * parameters of its own.
 */
static bool find_abstract(Dwarf_Die *function, Dwarf_Die *ret_abstract)
{
	struct member_walk own = { .started = false }, theirs = { .started = false };
	Dwarf_Die origin;

	if (!debug_origin(function, ret_abstract) || !next_formal(ret_abstract, &theirs))
		return false;
	while (next_formal(function, &own)) {
		if (!debug_origin(&own.die, &origin))
			return false;
	}
	return true;
}

/* Replaces an abstract parameter by its concrete instance, if it has one. */
static void make_concrete(Dwarf_Die *function, Dwarf_Die *parameter)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die origin;

	while (next_formal(function, &walk)) {
		if (debug_origin(&walk.die, &origin) && origin.addr == parameter->addr) {
			*parameter = walk.die;
			return;
		}
	}
}

/* Go lists results among the parameters. */
static bool is_result(Dwarf_Die *die)
{
	Dwarf_Die unit;

	return debug_has_flag(die, DW_AT_variable_parameter) &&
	       dwarf_diecu(die, &unit, NULL, NULL) && dwarf_srclang(&unit) == DW_LANG_Go;
}

bool debug_next_parameter(Dwarf_Die *function, struct member_walk *walk,
			  struct parameter *ret_parameter)
{
	Dwarf_Die listed = *function;
	bool is_made = find_abstract(function, &listed);

	do {
		if (!next_formal(is_made ? &listed : function, walk))
			return false;
		ret_parameter->die = walk->die;
		if (is_made)
			make_concrete(function, &ret_parameter->die);
		ret_parameter->name = debug_name(&ret_parameter->die);
		/* a hidden parameter of constructors of classes with virtual bases; concrete
		 * constructors don't get it */
	} while ((ret_parameter->name && strcmp(ret_parameter->name, "__in_chrg") == 0) ||
		 is_result(&ret_parameter->die));
	type_of(&ret_parameter->die, &ret_parameter->type);
	return true;
}
