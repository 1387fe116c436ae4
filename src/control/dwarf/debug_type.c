/* debug_type.c - types, members, variants and enumerators. */
#include <dwarf.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "debug_state.h"

/* ---- attributes ------------------------------------------------------------------------------ */

static bool attr_number(Dwarf_Die *die, unsigned name, uint64_t *ret_value)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr_integrate(die, name, &attribute) ||
	    dwarf_formudata(&attribute, &value) != 0)
		return false;
	*ret_value = value;
	return true;
}

bool debug_constant(Dwarf_Attribute *attribute, int64_t *ret_value)
{
	unsigned form = dwarf_whatform(attribute);
	Dwarf_Sword number;
	Dwarf_Word word;

	if (form == DW_FORM_data1 || form == DW_FORM_data2 || form == DW_FORM_data4) {
		if (dwarf_formudata(attribute, &word) != 0)
			return false;
		*ret_value = (int64_t)word;
		return true;
	}
	if (dwarf_formsdata(attribute, &number) != 0)
		return false;
	*ret_value = number;
	return true;
}

bool debug_has_flag(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	bool value = false;

	return dwarf_attr_integrate(die, name, &attribute) &&
	       dwarf_formflag(&attribute, &value) == 0 && value;
}

static bool attr_die(Dwarf_Die *die, unsigned name, Dwarf_Die *ret_die)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, name, &attribute) &&
	       dwarf_formref_die(&attribute, ret_die);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static void set_base(struct type *type)
{
	uint64_t encoding = 0;

	attr_number(&type->die, DW_AT_encoding, &encoding);
	type->is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	type->kind = TYPE_INT;
	switch (encoding) {
	case DW_ATE_boolean:
		type->kind = TYPE_BOOL;
		break;
	case DW_ATE_float:
		type->kind = TYPE_FLOAT;
		break;
	case DW_ATE_complex_float:
		type->kind = TYPE_COMPLEX;
		break;
	case DW_ATE_UTF: /* char8_t */
		type->kind = type->size == 1 ? TYPE_CHAR : TYPE_INT;
		break;
	case DW_ATE_signed_char:
	case DW_ATE_unsigned_char: {
		const char *name = debug_name(&type->die);

		if (type->size == 1 && name && strcmp(name, "char") == 0)
			type->kind = TYPE_CHAR;
		break;
	}
	default:
		break;
	}
}

/* Bounds types in types, which may have no end in a hostile file: arrays of arrays, enumerations of
 * themselves. */
#define NESTED_MAX 8
#define MEMBER_STEPS_MAX 256u

static void resolve(Dwarf_Die *die, struct type *ret_type, unsigned nested);
static uint64_t count_elements(const struct type *type, struct type *ret_element, unsigned nested);

static void set_enum(struct type *type, unsigned nested)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die base;
	uint64_t encoding;
	const char *label;
	int64_t value;

	type->kind = TYPE_ENUM;
	if (attr_die(&type->die, DW_AT_type, &base)) {
		struct type underlying;

		resolve(&type->die, &underlying, nested + 1);
		type->is_signed = underlying.is_signed;
		type->size = type->size ? type->size : underlying.size;
		return;
	}
	if (attr_number(&type->die, DW_AT_encoding, &encoding)) {
		type->is_signed = encoding == DW_ATE_signed;
		return;
	}
	while (type_next_label(type, &walk, &label, &value))
		type->is_signed |= value < 0;
}

static void set_array(struct type *type, unsigned nested)
{
	struct type element;
	uint64_t count;

	type->kind = debug_has_flag(&type->die, DW_AT_GNU_vector) ? TYPE_VECTOR : TYPE_ARRAY;
	count = count_elements(type, &element, nested + 1);
	if (!type->size && element.size && count < UINT32_MAX && element.size < UINT32_MAX)
		type->size = element.size * count;
}

static void set_kind(struct type *type, unsigned nested)
{
	switch (dwarf_tag(&type->die)) {
	case DW_TAG_base_type:
		set_base(type);
		break;
	case DW_TAG_enumeration_type:
		set_enum(type, nested);
		break;
	case DW_TAG_pointer_type:
	case DW_TAG_unspecified_type: /* nullptr_t */
		type->kind = TYPE_POINTER;
		type->size = 8;
		break;
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		type->kind = TYPE_REFERENCE;
		type->size = 8;
		break;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
	case DW_TAG_interface_type:
		type->kind = TYPE_STRUCT;
		break;
	case DW_TAG_union_type:
		type->kind = TYPE_UNION;
		break;
	case DW_TAG_ptr_to_member_type: {
		struct type target;

		resolve(&type->die, &target, nested + 1);
		type->kind = TYPE_INT;
		type->size = target.kind == TYPE_FUNCTION ? 16 : 8;
		break;
	}
	case DW_TAG_array_type:
		set_array(type, nested);
		break;
	case DW_TAG_subroutine_type:
		type->kind = TYPE_FUNCTION;
		break;
	default:
		type->kind = TYPE_VOID;
	}
}

static bool is_wrapper(int tag)
{
	static const int tags[] = { DW_TAG_typedef,	  DW_TAG_const_type,  DW_TAG_volatile_type,
				    DW_TAG_restrict_type, DW_TAG_atomic_type, DW_TAG_immutable_type,
				    DW_TAG_template_alias };

	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		if (tag == tags[i])
			return true;
	}
	return false;
}

/* The type that a DIE is, without names and qualifiers. */
static void strip(Dwarf_Die *die, struct type *ret_type, unsigned nested)
{
	struct type type = { .kind = TYPE_VOID };
	Dwarf_Die at = *die;
	uint64_t size;

	*ret_type = type;
	for (unsigned depth = 0; depth < DEBUG_DEPTH_MAX && nested < NESTED_MAX; depth++) {
		if (!type.name)
			type.name = debug_name(&at);
		if (is_wrapper(dwarf_tag(&at))) {
			if (!attr_die(&at, DW_AT_type, &at))
				return;
			continue;
		}
		type.die = at;
		if (attr_number(&at, DW_AT_byte_size, &size))
			type.size = size;
		set_kind(&type, nested);
		*ret_type = type;
		return;
	}
}

static void resolve(Dwarf_Die *die, struct type *ret_type, unsigned nested)
{
	Dwarf_Die type;

	*ret_type = (struct type){ .kind = TYPE_VOID };
	if (attr_die(die, DW_AT_type, &type))
		strip(&type, ret_type, nested);
}

void type_of(Dwarf_Die *die, struct type *ret_type)
{
	resolve(die, ret_type, 0);
}

void type_from_die(Dwarf_Die *die, struct type *ret_type)
{
	strip(die, ret_type, 0);
}

void type_target(const struct type *type, struct type *ret_type)
{
	Dwarf_Die die = type->die;

	if (type->pointers > 1) {
		*ret_type = *type;
		ret_type->pointers--;
	} else if (type->pointers && type->base) {
		*ret_type = *type->base;
		ret_type->base = type->base;
	} else if (type->pointers) {
		type_from_die(&die, ret_type);
	} else if (die.addr) {
		type_of(&die, ret_type);
	} else {
		*ret_type = (struct type){ .kind = TYPE_VOID };
	}
}

/* One dimension. */
static uint64_t dimension(Dwarf_Die *die)
{
	uint64_t value, low = 0;

	if (attr_number(die, DW_AT_count, &value))
		return value;
	attr_number(die, DW_AT_lower_bound, &low);
	if (!attr_number(die, DW_AT_upper_bound, &value) || value < low)
		return 0;
	return value - low + 1;
}

static uint64_t count_elements(const struct type *type, struct type *ret_element, unsigned nested)
{
	Dwarf_Die die = type->die, child;
	uint64_t count = 1;
	bool any = false;

	resolve(&die, ret_element, nested);
	if (dwarf_child(&die, &child) == 0) {
		do {
			uint64_t n;

			if (dwarf_tag(&child) != DW_TAG_subrange_type)
				continue;
			n = dimension(&child);
			count = n && count <= UINT32_MAX / n ? count * n : 0;
			any = true;
		} while (dwarf_siblingof(&child, &child) == 0);
	}
	if (!any || ret_element->kind != TYPE_ARRAY)
		return any ? count : 0;
	struct type inner = *ret_element;
	uint64_t n = nested < NESTED_MAX ? count_elements(&inner, ret_element, nested + 1) : 0;
	return n && count <= UINT32_MAX / n ? count * n : 0;
}

uint64_t type_count(const struct type *type, struct type *ret_element)
{
	return count_elements(type, ret_element, 0);
}

/* ---- members --------------------------------------------------------------------------------- */

/* False: the offset isn't a number (a virtual base class). */
static bool member_place(Dwarf_Die *die, struct member *member)
{
	uint64_t value, bits, storage;
	Dwarf_Attribute attribute;

	if (dwarf_attr_integrate(die, DW_AT_data_member_location, &attribute)) {
		Dwarf_Word offset;

		if (dwarf_whatform(&attribute) == DW_FORM_exprloc ||
		    dwarf_formudata(&attribute, &offset) != 0)
			return false;
		member->offset = offset;
	}
	if (!attr_number(die, DW_AT_bit_size, &bits) || bits == 0 || bits > 64)
		return true;
	member->bit_size = (uint32_t)bits;
	if (attr_number(die, DW_AT_data_bit_offset, &value)) {
		member->offset = value / 8;
		member->bit_offset = (uint32_t)(value % 8);
	} else if (attr_number(die, DW_AT_bit_offset, &value)) {
		/* DWARF 3: counted from the highest bit of a storage unit. */
		if (!attr_number(die, DW_AT_byte_size, &storage))
			storage = member->type.size;
		value = storage * 8 - value - bits;
		if (value >= 64)
			return false;
		member->offset += value / 8;
		member->bit_offset = (uint32_t)(value % 8);
	}
	return true;
}

bool type_next_member(const struct type *type, struct member_walk *walk, struct member *ret_member)
{
	Dwarf_Die parent = type->die;

	for (;;) {
		struct member member = { .name = NULL };
		int tag, status = walk->started ? dwarf_siblingof(&walk->die, &walk->die) :
						  dwarf_child(&parent, &walk->die);

		walk->started = true;
		if (status != 0)
			return false;
		tag = dwarf_tag(&walk->die);
		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
		    debug_has_flag(&walk->die, DW_AT_declaration) ||
		    debug_has_flag(&walk->die, DW_AT_external))
			continue;
		member.is_base = tag == DW_TAG_inheritance;
		member.name = debug_name(&walk->die);
		type_of(&walk->die, &member.type);
		if (!member_place(&walk->die, &member))
			continue;
		*ret_member = member;
		return true;
	}
}

/* `steps` bounds the structs looked at: an unnamed member of its own type has no end. */
static bool find_member(const struct type *type, const char *name, unsigned *steps,
			struct member *ret_member)
{
	struct member_walk walk = { .started = false };
	struct member member, inner;
	struct variant variant;

	if (*steps == 0 || (type->kind != TYPE_STRUCT && type->kind != TYPE_UNION))
		return false;
	--*steps;
	while (type_next_member(type, &walk, &member)) {
		if (!member.is_base && member.name && strcmp(member.name, name) == 0) {
			*ret_member = member;
			return true;
		}
	}
	walk = (struct member_walk){ .started = false };
	while (type_next_variant(type, &walk, &variant)) {
		if (variant.member.name && strcmp(variant.member.name, name) == 0) {
			*ret_member = variant.member;
			return true;
		}
	}
	walk = (struct member_walk){ .started = false };
	while (type_next_member(type, &walk, &member)) {
		if ((member.is_base || !member.name) &&
		    find_member(&member.type, name, steps, &inner)) {
			inner.offset += member.offset;
			*ret_member = inner;
			return true;
		}
	}
	return false;
}

bool type_find_member(const struct type *type, const char *name, struct member *ret_member)
{
	unsigned steps = MEMBER_STEPS_MAX;

	return find_member(type, name, &steps, ret_member);
}

bool type_next_label(const struct type *type, struct member_walk *walk, const char **ret_name,
		     int64_t *ret_value)
{
	Dwarf_Die parent = type->die;
	Dwarf_Attribute attribute;
	int64_t value;

	for (;;) {
		int status = walk->started ? dwarf_siblingof(&walk->die, &walk->die) :
					     dwarf_child(&parent, &walk->die);

		walk->started = true;
		if (status != 0)
			return false;
		if (dwarf_tag(&walk->die) != DW_TAG_enumerator ||
		    !dwarf_attr_integrate(&walk->die, DW_AT_const_value, &attribute) ||
		    !debug_constant(&attribute, &value))
			continue;
		*ret_name = debug_name(&walk->die);
		*ret_value = value;
		if (*ret_name)
			return true;
	}
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* Finds a complete type of that name and tag at the top level of a unit, or in its namespaces. */
static bool find_complete(Dwarf_Die *parent, const char *name, int tag, unsigned depth,
			  Dwarf_Die *ret_die)
{
	Dwarf_Die die;

	if (depth > 8 || dwarf_child(parent, &die) != 0)
		return false;
	do {
		const char *found;

		if (dwarf_tag(&die) == DW_TAG_namespace &&
		    find_complete(&die, name, tag, depth + 1, ret_die))
			return true;
		if (dwarf_tag(&die) != tag || debug_has_flag(&die, DW_AT_declaration))
			continue;
		found = debug_name(&die);
		if (found && strcmp(found, name) == 0) {
			*ret_die = die;
			return true;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

void type_complete(struct debug *debug, struct type *type)
{
	_cleanup_free_ bool *marks = NULL;
	const char *name;

	if ((type->kind != TYPE_STRUCT && type->kind != TYPE_UNION) ||
	    !debug_has_flag(&type->die, DW_AT_declaration) || !debug_index(debug))
		return;
	name = debug_name(&type->die);
	marks = name ? debug_mention(debug, name) : NULL;
	for (size_t i = 0; marks && i < debug->units.count; i++) {
		Dwarf_Die die;
		uint64_t size;

		if (!marks[i] ||
		    !find_complete(debug_unit_die(debug, i), name, dwarf_tag(&type->die), 0, &die))
			continue;
		type->die = die;
		if (attr_number(&die, DW_AT_byte_size, &size))
			type->size = size;
		return;
	}
}
