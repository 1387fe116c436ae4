/*
 * shape_pointer.c - pointers and references: text, an address, or what is there.
 */
#include <string.h>

#include "shape_fields.h"

/* Types that are worth following a pointer for. */
static bool is_followed(const struct type *target)
{
	return (target->kind == TYPE_STRUCT || target->kind == TYPE_UNION) && target->size;
}

static bool is_number(const struct type *target)
{
	return target->kind >= TYPE_INT && target->kind <= TYPE_POINTER;
}

/* `{ address = 0x..., value = [ ... ] }`: no value behind a null pointer, nor behind one that can't
 * be read. */
bool shape_target(struct shape *shape, const char *name, const struct type *target,
		  const struct value_place *address, const struct value_place *counts,
		  unsigned depth)
{
	struct value_place here = { .kind = PLACE_VALUE }, behind = { .kind = PLACE_MEMORY };
	unsigned locals = shape->locals;
	uint16_t blamed = shape->blamed;
	struct value_ops code = { .count = 0 };
	struct type complete = *target;
	size_t index;

	type_complete(shape->debug, &complete);
	if ((!is_followed(&complete) && !is_number(&complete)) || !shape_can_list(shape, 3) ||
	    depth + 1 >= shape->depth_max || !place_push(address, 8, false, &code))
		return false;
	uint8_t at = shape_local(shape), count = shape_local(shape), number = shape_local(shape);

	ops_add(&code, DT_OP_SET, at, 0, 0);
	ops_add(&code, DT_OP_GET, at, 0, 0);
	ops_const(&code, 0);
	ops_add(&code, DT_OP_NE, 0, 0, 0);
	ops_add(&code, DT_OP_SET, count, 0, 0);
	ops_add(&here.ops, DT_OP_GET, at, 0, 0);
	ops_add(&behind.ops, DT_OP_GET, at, 0, 0);
	shape_begin_struct(shape, name, &index);
	if (!shape->blamed)
		shape->blamed = (uint16_t)(index + 1);
	shape_code(shape, &code, count);
	shape_number(shape, "address", FIELD_HEX, 8, false, &here);
	if (counts)
		shape_number(shape, "use_count", FIELD_INT, 4, true, counts);
	shape->derefs++;
	struct list_element element = { &complete, &behind, NULL, NULL };
	shape_add_list(shape, "value", &element, count, number, 1, NULL, depth + 1);
	shape->derefs--;
	shape->blamed = blamed;
	shape_end_struct(shape, name, index);
	shape->locals = locals;
	return true;
}

/* Rust's Box is a smart pointer. */
static bool is_box(const struct type *type)
{
	static const char *const names[] = { "alloc::boxed::Box<", "Box<" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && type->name; i++) {
		if (strncmp(type->name, names[i], strlen(names[i])) == 0)
			return true;
	}
	return false;
}

/* Follows pointers to structs as far as --deref says; a number may be the first of many. */
static bool add_target(struct shape *shape, const char *name, const struct type *type,
		       const struct value_place *place, unsigned depth)
{
	struct type target;

	type_target(type, &target);
	if (is_box(type) && shape->derefs < (shape->deref ? shape->deref : 1))
		return shape_target(shape, name, &target, place, NULL, depth);
	return shape->derefs < shape->deref &&
	       (target.kind == TYPE_STRUCT || target.kind == TYPE_UNION) &&
	       shape_target(shape, name, &target, place, NULL, depth);
}

void shape_pointer(struct shape *shape, const char *name, const struct type *type,
		   const struct value_place *place, unsigned depth)
{
	struct type target;

	type_target(type, &target);
	if (type->name && type->name[0] == '&') /* Rust's references */
		shape_reference(shape, name, type, place, depth);
	else if (target.kind == TYPE_CHAR)
		shape_add_string(shape, name, place);
	else if (value_is_wide(&target))
		shape_wide_text(shape, name, place, (uint8_t)target.size);
	else if (!add_target(shape, name, type, place, depth))
		shape_number(shape, name, FIELD_HEX, 8, false, place);
}

/* The object that an argument or a result refers to. References inside of it are addresses, unless
 * they lead to a number or to text: objects refer to each other without an end. */
void shape_reference(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	uint16_t blamed = shape->blamed;
	struct value_place behind;
	struct type target;

	type_target(type, &target);
	type_complete(shape->debug, &target);
	place_behind(place, &behind);
	if (target.kind == TYPE_STRUCT && shape_text_type(shape, name, &target, &behind)) {
		shape->is_gathered = true;
	} else if (is_number(&target) && depth < shape->depth_max) {
		shape_value(shape, name, &target, &behind, depth + 1);
		shape->is_gathered = true;
	} else if (behind.kind != PLACE_GONE && depth == 0 && depth < shape->depth_max &&
		   (is_followed(&target) || (target.kind == TYPE_ARRAY && target.size))) {
		if (!shape->blamed)
			shape->blamed = (uint16_t)(shape->field_count + 1);
		shape_value(shape, name, &target, &behind, depth + 1);
		shape->is_gathered = true;
	} else {
		shape_number(shape, name, FIELD_HEX, 8, false, place);
	}
	shape->blamed = blamed;
}
