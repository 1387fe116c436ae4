/*
 * shape_holder.c - types that hold one value or none, or several of different types: optional
 * values, variants, smart pointers, tuples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	struct list_element element = { &c->element, &value, NULL, NULL };
	shape_add_list(c->shape, "value", &element, c->count, c->number, 1, NULL, c->depth + 1);
	c->shape->blamed = blamed;
	shape_end_struct(c->shape, c->name, index);
	return true;
}

bool holder_add_optional(struct container *c)
{
	return holder_add_maybe(c, "_M_payload._M_payload._M_value", "_M_payload._M_engaged");
}

bool holder_may_follow(const struct shape *shape)
{
	return shape->derefs < (shape->deref ? shape->deref : 1);
}

/* With a deleter that needs no room the pointer is all there is. */
bool holder_add_unique_ptr(struct container *c)
{
	if (c->type->size != 8 || !type_argument(c->type, 0, &c->element))
		return false;
	if (!holder_may_follow(c->shape) ||
	    !shape_target(c->shape, c->name, &c->element, c->place, NULL, c->depth))
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
	/* programs with libc++ declare the type alone: it is behind the table of functions */
	if (!shape_find_path(&counts, counter, &offset, NULL))
		offset = counts.size ? 0 : sizeof(uint64_t);
	if (!offset ||
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
	if (!holder_may_follow(c->shape) || !shape_target(c->shape, c->name, &c->element, &address,
						   &counts, c->depth))
		shape_number(c->shape, c->name, FIELD_HEX, 8, false, &address);
	return true;
}

bool holder_add_shared_ptr(struct container *c)
{
	return holder_add_counted(c, "_M_ptr", "_M_refcount._M_pi", "_M_use_count", 4, 0);
}

/* ---- one of several -------------------------------------------------------------------------- */

/* The type of the next alternative; false: no more, or not known. */
static bool next_alternative(struct container *c, const struct holder_variant *how,
			     struct type *rest, struct type *ret_type)
{
	struct type first;
	uint64_t offset;

	if (!shape_find_path(rest, how->first, &offset, &first) ||
	    !(how->value ? shape_find_path(&first, how->value, &offset, ret_type) :
			   type_argument(&first, 0, ret_type)) ||
	    !shape_find_path(rest, how->rest, &offset, &first))
		return false;
	*rest = first;
	type_complete(c->shape->debug, ret_type);
	return true;
}

/* The number of alternatives; 0: too many. */
static uint64_t count_alternatives(struct container *c, const struct holder_variant *how,
				   struct type rest)
{
	struct type type;
	uint64_t count = 0;

	while (count <= ALTERNATIVES_MAX && next_alternative(c, how, &rest, &type))
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
	with(&c->code, DT_OP_AND, (1ULL << 8 * size) - 1);
	with(&c->code, DT_OP_LEU, count);
	op(&c->code, DT_OP_CHECK); /* Y8: a variant's index */
	get(&c->code, c->count);
	set(&c->code, c->count); /* 0 if that failed */
}

static void add_alternatives(struct container *c, const struct holder_variant *how,
			     struct type rest, const struct value_place *index, uint32_t size,
			     const struct value_place *value)
{
	struct list_element element = { &c->element, value, NULL, NULL };
	uint64_t count = count_alternatives(c, how, rest);

	for (uint64_t i = 0; i < count && next_alternative(c, how, &rest, &c->element); i++) {
		char name[24];

		snprintf(name, sizeof(name), "value_%u", (unsigned)i);
		set_chosen(c, index, size, i, count);
		shape_code(c->shape, &c->code, c->count);
		shape_add_list(c->shape, name, &element, c->count, c->number, 1, NULL,
			       c->depth + 1);
	}
}

bool holder_add_one_of(struct container *c, const struct holder_variant *how)
{
	struct value_place index, value;
	uint16_t blamed = c->shape->blamed;
	struct type tag, rest;
	uint64_t at, offset;
	size_t field;

	if (c->depth + 1 >= c->shape->depth_max || !shape_can_list(c->shape, 6) ||
	    !shape_find_path(c->type, how->tag, &at, &tag) ||
	    (tag.size != 1 && tag.size != 2 && tag.size != 4) ||
	    !shape_find_path(c->type, how->values, &offset, &rest) ||
	    !count_alternatives(c, how, rest))
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
	add_alternatives(c, how, rest, &index, (uint32_t)tag.size, &value);
	c->shape->blamed = blamed;
	shape_end_struct(c->shape, c->name, field);
	return true;
}

bool holder_add_variant(struct container *c)
{
	static const struct holder_variant how = { "_M_index", "_M_u", "_M_first", NULL,
						   "_M_rest" };

	return holder_add_one_of(c, &how);
}

/* ---- several --------------------------------------------------------------------------------- */

#define TUPLE_MAX 16u
#define TUPLE_STEPS 256u

/* Does this class hold member `index` of a tuple? libstdc++: _Head_base<0, int, false>. */
static bool is_leaf(const struct type *type, unsigned index)
{
	static const char *const names[] = { "_Head_base<", "__tuple_leaf<" };
	Dwarf_Die die = type->die;
	const char *called = debug_name(&die);

	for (size_t i = 0; called && i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);
		char *end;

		if (strncmp(called, names[i], length) == 0)
			return strtoul(called + length, &end, 10) == index &&
			       (*end == ',' || *end == 'U'); /* 0UL */
	}
	return false;
}

/* Each member is in a base class of its own. `steps` bounds the classes looked at. */
static bool find_leaf(const struct type *type, unsigned index, unsigned *steps,
		      uint64_t *ret_offset, struct type *ret_type)
{
	struct member_walk walk = { .started = false };
	struct member base;
	uint64_t offset;

	while (*steps && type_next_member(type, &walk, &base)) {
		if (!base.is_base && strcmp(base.name ? base.name : "", "__base_") != 0)
			continue;
		--*steps;
		if (is_leaf(&base.type, index) ?
			    shape_find_path(&base.type, "_M_head_impl", &offset, ret_type) ||
				    shape_find_path(&base.type, "__value_", &offset, ret_type) :
			    find_leaf(&base.type, index, steps, &offset, ret_type)) {
			*ret_offset = base.offset + offset;
			return true;
		}
	}
	return false;
}

static bool find_in_tuple(struct container *c, unsigned index, uint64_t *ret_offset)
{
	unsigned steps = TUPLE_STEPS;

	return find_leaf(c->type, index, &steps, ret_offset, &c->element);
}

/* `{ 0 = 5, 1 = "text" }`: in the order of its arguments, which isn't that of its bases. */
bool holder_add_tuple(struct container *c)
{
	uint64_t offset;
	size_t index;

	if (c->depth >= c->shape->depth_max || !find_in_tuple(c, 0, &offset))
		return false;
	shape_begin_struct(c->shape, c->name, &index);
	for (unsigned i = 0; i < TUPLE_MAX; i++) {
		struct value_place part;
		char name[16];

		if (!find_in_tuple(c, i, &offset))
			break;
		snprintf(name, sizeof(name), "%u", i);
		place_member(c->place, offset, &part);
		shape_value(c->shape, name, &c->element, &part, c->depth + 1);
	}
	shape_end_struct(c->shape, c->name, index);
	return true;
}
