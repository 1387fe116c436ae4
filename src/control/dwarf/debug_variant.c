/*
 * debug_variant.c - enumerations with values in them, as Rust has them: a struct with a variant
 * part.
 */
#include <dwarf.h>

#include "debug_state.h"

static bool find_child(Dwarf_Die *parent, int tag, Dwarf_Die *ret_die)
{
	if (dwarf_child(parent, ret_die) != 0)
		return false;
	do {
		if (dwarf_tag(ret_die) == tag)
			return true;
	} while (dwarf_siblingof(ret_die, ret_die) == 0);
	return false;
}

static void make_member(Dwarf_Die *die, struct member *ret_member)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset = 0;

	*ret_member = (struct member){ .name = debug_name(die) };
	type_of(die, &ret_member->type);
	if (dwarf_attr(die, DW_AT_data_member_location, &attribute))
		dwarf_formudata(&attribute, &offset);
	ret_member->offset = offset;
}

bool type_find_tag(const struct type *type, struct member *ret_tag)
{
	Dwarf_Die die = type->die, part, tag;
	Dwarf_Attribute attribute;

	if (type->kind != TYPE_STRUCT || !find_child(&die, DW_TAG_variant_part, &part) ||
	    !dwarf_attr(&part, DW_AT_discr, &attribute) || !dwarf_formref_die(&attribute, &tag))
		return false;
	make_member(&tag, ret_tag);
	return true;
}

bool type_next_variant(const struct type *type, struct member_walk *walk,
		       struct variant *ret_variant)
{
	Dwarf_Die die = type->die, part, member;

	for (;;) {
		struct variant variant = { .has_value = false };
		Dwarf_Attribute attribute;
		int status;

		if (!walk->started && !find_child(&die, DW_TAG_variant_part, &part))
			return false;
		status = walk->started ? dwarf_siblingof(&walk->die, &walk->die) :
					 dwarf_child(&part, &walk->die);
		walk->started = true;
		if (status != 0)
			return false;
		if (dwarf_tag(&walk->die) != DW_TAG_variant ||
		    !find_child(&walk->die, DW_TAG_member, &member))
			continue;
		variant.has_value = dwarf_attr(&walk->die, DW_AT_discr_value, &attribute) &&
				    debug_constant(&attribute, &variant.value);
		make_member(&member, &variant.member);
		*ret_variant = variant;
		return true;
	}
}
