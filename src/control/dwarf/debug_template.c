/* debug_template.c - arguments of templates and generic types. */
#include <dwarf.h>

#include "debug_state.h"

#define CHILDREN_MAX 4096u

bool type_argument(const struct type *type, unsigned number, struct type *ret_type)
{
	Dwarf_Die die = type->die, child;
	int status;

	if (type->pointers || !type->die.addr)
		return false;
	status = dwarf_child(&die, &child);
	for (unsigned i = 0; status == 0 && i < CHILDREN_MAX; i++) {
		if (dwarf_tag(&child) == DW_TAG_template_type_parameter && number-- == 0) {
			type_of(&child, ret_type);
			return true;
		}
		status = dwarf_siblingof(&child, &child);
	}
	return false;
}
