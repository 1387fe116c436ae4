/*
 * shape_holder.c - types that hold one value, or none: optional values, variants, smart pointers.
 */
#include <stdio.h>

#include "elements.h"

#define ALTERNATIVES_MAX 16u

/* ---- one value or none ----------------------------------------------------------------------- */

/* `{ has_value = true, value = [ 5 ] }` */
bool holder_add_maybe(struct container *c, const char *where, const char *has_value)
{
	struct value_place has = { .kind = PLACE_VALUE }, value;
	uint16_t blamed = c->shape->blamed;
	uint64_t offset;
	size_t index;

	if (c->depth + 1 >= c->shape->depth_max || !container_begin(c, 0, c->type) ||
	    !shape_find_path(c->type, where, &offset, NULL) ||
	    !container_push(c, has_value, 1, &c->code))
		return false;
	place_member(c->place, offset, &value);
	set(&c->code, c->count);
	get(&c->code, c->count);
	with(&c->code, DT_OP_LEU, 1);
	op(&c->code, DT_OP_CHECK); /* Y8 */
	get(&c->code, c->count);
	set(&c->code, c->count);
	get(&has.ops, c->count);
	shape_begin_struct(c->shape, c->name, &index);
	if (!c->shape->blamed)
		c->shape->blamed = (uint16_t)(index + 1);
	shape_code(c->shape, &c->code, c->count);
	shape_bool(c->shape, "has_value", 1, &has);
	shape_add_list(c->shape, "value", &c->element, &value, c->count, c->number, 1, NULL,
		       c->depth + 1);
	c->shape->blamed = blamed;
	shape_end_struct(c->shape, c->name, index);
	return true;
}

bool holder_add_optional(struct container *c)
{
	return holder_add_maybe(c, "_M_payload._M_payload._M_value", "_M_payload._M_engaged");
}

/* Smart pointers are followed once; further as --deref says. */
static bool may_follow(const struct shape *shape)
{
	return shape->derefs < (shape->deref ? shape->deref : 1);
}

/* With a deleter that needs no room the pointer is all there is. */
bool holder_add_unique_ptr(struct container *c)
{
	if (c->type->size != 8 || !type_argument(c->type, 0, &c->element))
		return false;
	if (!may_follow(c->shape) || !shape_target(c->shape, c->name, &c->element, c->place, NULL,
						   c->depth))
		shape_number(c->shape, c->name, FIELD_HEX, 8, false, c->place);
	return true;
}

/* Pushes the number of owners, 0 without any. */
static bool push_use_count(struct container *c, const char *path, const char *counter,
			   uint32_t size, uint64_t one, struct value_ops *ops)
{
	struct value_ops count = { 0 };
	struct type pointer, counts;
	uint64_t offset;

	if (!shape_find_path(c->type, path, &offset, &pointer))
		return false;
	type_target(&pointer, &counts);
	type_complete(c->shape->debug, &counts);
	if (!shape_find_path(&counts, counter, &offset, NULL) ||
	    !container_push(c, path, 8, ops) || !container_push(c, path, 8, &count))
		return false;
	ops_add(&count, DT_OP_OFFSET, 0, 0, (uint32_t)offset);
	ops_add(&count, DT_OP_LOAD, (uint8_t)size, 1, 0);
	if (one)
		with(&count, DT_OP_ADD, one);
	ops_add(ops, DT_OP_SKIP_ZERO, 0, 0, (uint32_t)count.count + 1);
	ops_append(ops, &count);
	ops_add(ops, DT_OP_SKIP, 0, 0, 2);
	ops_const(ops, 0);
	return !ops->failed;
}

bool holder_add_counted(struct container *c, const char *pointer, const char *path,
			  const char *counter, uint32_t size, uint64_t one)
{
	struct value_place address, counts = { .kind = PLACE_VALUE };
	uint64_t offset;

	if (!type_argument(c->type, 0, &c->element) ||
	    !shape_find_path(c->type, pointer, &offset, NULL) ||
	    !push_use_count(c, path, counter, size, one, &counts.ops))
		return false;
	place_member(c->place, offset, &address);
	if (!may_follow(c->shape) || !shape_target(c->shape, c->name, &c->element, &address,
						   &counts, c->depth))
		shape_number(c->shape, c->name, FIELD_HEX, 8, false, &address);
	return true;
}

bool holder_add_shared_ptr(struct container *c)
{
	return holder_add_counted(c, "_M_ptr", "_M_refcount._M_pi", "_M_use_count", 4, 0);
}

/* The counts of its owners are beside the value. */
bool holder_add_rust_rc(struct container *c)
{
	struct value_place address;
	struct type pointer;
	uint64_t offset;

	if (!shape_find_path(c->type, "ptr.pointer", &offset, &pointer))
		return false;
	type_target(&pointer, &c->element);
	place_member(c->place, offset, &address);
	return may_follow(c->shape) && c->element.kind == TYPE_STRUCT &&
	       shape_target(c->shape, c->name, &c->element, &address, NULL, c->depth);
}

/* ---- one of several -------------------------------------------------------------------------- */

/* The type of the next alternative; false: no more, or not known. */
static bool next_alternative(struct container *c, struct type *rest, struct type *ret_type)
{
	struct type first;
	uint64_t offset;

	if (!shape_find_path(rest, "_M_first", &offset, &first) ||
	    !type_argument(&first, 0, ret_type) ||
	    !shape_find_path(rest, "_M_rest", &offset, &first))
		return false;
	*rest = first;
	type_complete(c->shape->debug, ret_type);
	return true;
}

/* The number of alternatives; 0: too many. */
static uint64_t count_alternatives(struct container *c, struct type rest)
{
	struct type type;
	uint64_t count = 0;

	while (count <= ALTERNATIVES_MAX && next_alternative(c, &rest, &type))
		count++;
	return count <= ALTERNATIVES_MAX ? count : 0;
}

/* Keeps 1 as the count of alternative `number` if it is the one, else 0. */
static void set_chosen(struct container *c, const struct value_place *index, uint32_t size,
		       uint64_t number, uint64_t count)
{
	c->code = (struct value_ops){ 0 };
	place_push(index, size, false, &c->code);
	with(&c->code, DT_OP_EQ, number);
	set(&c->code, c->count);
	/* without a value it is -1 */
	place_push(index, size, false, &c->code);
	with(&c->code, DT_OP_ADD, 1);
	with(&c->code, DT_OP_AND, size == 1 ? UINT8_MAX : UINT16_MAX);
	with(&c->code, DT_OP_LEU, count);
	op(&c->code, DT_OP_CHECK); /* Y8: a variant's index */
	get(&c->code, c->count);
	set(&c->code, c->count); /* 0 if that failed */
}

/* `{ index = 1, value_0 = [], value_1 = [ "text" ] }`: all alternatives are at one place. */
bool holder_add_variant(struct container *c)
{
	struct value_place index, value;
	uint16_t blamed = c->shape->blamed;
	struct type tag, rest;
	uint64_t at, offset, count;
	size_t field;

	if (c->depth + 1 >= c->shape->depth_max || !shape_can_list(c->shape, 6) ||
	    !shape_find_path(c->type, "_M_index", &at, &tag) || tag.size < 1 || tag.size > 2 ||
	    !shape_find_path(c->type, "_M_u", &offset, &rest) ||
	    !(count = count_alternatives(c, rest)))
		return false;
	place_member(c->place, at, &index);
	place_member(c->place, offset, &value);
	if (!place_has(&index, (uint32_t)tag.size))
		return false;
	c->count = shape_local(c->shape);
	c->number = shape_local(c->shape);
	shape_begin_struct(c->shape, c->name, &field);
	if (!c->shape->blamed)
		c->shape->blamed = (uint16_t)(field + 1);
	shape_number(c->shape, "index", FIELD_INT, (uint8_t)tag.size, true, &index);
	for (uint64_t i = 0; i < count && next_alternative(c, &rest, &c->element); i++) {
		char name[24];

		snprintf(name, sizeof(name), "value_%u", (unsigned)i);
		set_chosen(c, &index, (uint32_t)tag.size, i, count);
		shape_code(c->shape, &c->code, c->count);
		shape_add_list(c->shape, name, &c->element, &value, c->count, c->number, 1, NULL,
			       c->depth + 1);
	}
	c->shape->blamed = blamed;
	shape_end_struct(c->shape, c->name, field);
	return true;
}
