/*
 * shape_rust.c - slices of Go and Rust, and containers of Rust's library. Its members have changed
 * their names now and then; the oldest known ones are those of 1.63.
 */
#include <stdio.h>

#include "elements.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The pointer and the capacity of a RawVec. */
static const char *const buffers[][2] = {
	{ "buf.inner.ptr.pointer.pointer", "buf.inner.cap.__0" },
	{ "buf.inner.ptr.pointer.pointer", "buf.inner.cap" },
	{ "buf.ptr.pointer.pointer", "buf.cap.__0" }, /* before 1.83 */
	{ "buf.ptr.pointer.pointer", "buf.cap" },
};

static const char *const *find_buffer(const struct container *c)
{
	struct type type;
	uint64_t offset;

	for (size_t i = 0; i < COUNT(buffers); i++) {
		if (shape_find_path(c->type, buffers[i][0], &offset, NULL) &&
		    shape_find_path(c->type, buffers[i][1], &offset, &type) && type.size == 8)
			return buffers[i];
	}
	return NULL;
}

bool rust_add_vec(struct container *c)
{
	const char *const *buffer = find_buffer(c);

	return buffer && container_begin(c, 0, c->type) &&
	       container_add_row(c, buffer[0], "len", buffer[1]);
}

static void take_locals(struct container *c)
{
	c->count = shape_local(c->shape);
	c->number = shape_local(c->shape);
	c->base = shape_local(c->shape);
	c->at.kind = PLACE_MEMORY;
}

/* &[T], &mut [T], Box<[T]>: the target of a member is the element. */
bool rust_add_slice(struct container *c)
{
	struct type pointer;
	uint64_t offset;

	if (!shape_find_path(c->type, "data_ptr", &offset, &pointer) ||
	    !shape_can_list(c->shape, 6))
		return false;
	type_target(&pointer, &c->element);
	type_complete(c->shape->debug, &c->element);
	take_locals(c);
	return container_add_row(c, "data_ptr", "length", NULL);
}

/* A slice of Go, like a pointer: three registers cost a thirtieth of the elements. */
bool go_add_slice(struct container *c)
{
	struct type pointer;
	uint64_t offset;

	if (!c->shape->deref || !shape_find_path(c->type, "array", &offset, &pointer) ||
	    !shape_can_list(c->shape, 6))
		return false;
	type_target(&pointer, &c->element);
	type_complete(c->shape->debug, &c->element);
	take_locals(c);
	return container_add_row(c, "array", "len", "cap");
}

/* The counts of its owners are beside the value. */
bool rust_add_rc(struct container *c)
{
	struct value_place address;
	struct type pointer;
	uint64_t offset;

	if (!shape_find_path(c->type, "ptr.pointer", &offset, &pointer))
		return false;
	type_target(&pointer, &c->element);
	place_member(c->place, offset, &address);
	return holder_may_follow(c->shape) && c->element.kind == TYPE_STRUCT &&
	       shape_target(c->shape, c->name, &c->element, &address, NULL, c->depth);
}

/* ---- VecDeque: a ring ------------------------------------------------------------------------ */

/* Before 1.67 `tail` was the first, and `head` behind the last. */
static bool count_ring(struct container *c, const char *capacity, const char **ret_first)
{
	*ret_first = "head";
	if (container_push(c, "len", 8, &c->code))
		return true;
	*ret_first = "tail";
	if (!container_push(c, "head", 8, &c->code) || !container_push(c, "tail", 8, &c->code))
		return false;
	op(&c->code, DT_OP_SUB);
	if (!container_push(c, capacity, 8, &c->code))
		return false;
	with(&c->code, DT_OP_SUB, 1);
	op(&c->code, DT_OP_AND);
	return true;
}

bool rust_add_deque(struct container *c)
{
	const char *const *buffer = find_buffer(c);
	const char *first;

	if (!buffer || !container_begin(c, 0, c->type) || !c->element.size ||
	    !container_push(c, buffer[0], 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!count_ring(c, buffer[1], &first))
		return false;
	container_set_count(c);
	get(&c->code, c->count);
	if (!container_push(c, buffer[1], 8, &c->code))
		return false;
	op(&c->code, DT_OP_LEU);
	op(&c->code, DT_OP_CHECK); /* Y6 */
	get(&c->code, c->count);
	set(&c->code, c->count);
	get(&c->at.ops, c->base);
	get(&c->at.ops, c->number);
	if (!container_push(c, first, 8, &c->at.ops))
		return false;
	op(&c->at.ops, DT_OP_ADD);
	if (!container_push(c, buffer[1], 8, &c->at.ops))
		return false;
	op(&c->at.ops, DT_OP_MODU);
	with(&c->at.ops, DT_OP_MUL, c->element.size);
	op(&c->at.ops, DT_OP_ADD);
	return container_finish(c);
}

/* ---- HashMap, HashSet ------------------------------------------------------------------------ */

/* Adds the place of a member of the tuple in the slot: it lies before the control bytes, the last
 * slot first. */
static void place_in_slot(const struct container *c, uint8_t slot, uint64_t size, uint64_t offset,
			  struct value_place *place)
{
	place->kind = PLACE_MEMORY;
	get(&place->ops, c->base);
	get(&place->ops, slot);
	with(&place->ops, DT_OP_ADD, 1);
	with(&place->ops, DT_OP_MUL, size);
	op(&place->ops, DT_OP_SUB);
	with(&place->ops, DT_OP_ADD, offset);
}

/* Takes apart the tuple that a slot holds: a key, and a value that may be (). */
static bool set_types(struct container *c, const struct type *table, uint8_t slot)
{
	struct type tuple, key;
	uint64_t size, offset;

	if (!type_argument(table, 0, &tuple))
		return false;
	type_complete(c->shape->debug, &tuple);
	size = tuple.size;
	if (!size || !shape_find_path(&tuple, "__0", &offset, &key) || !key.size)
		return false;
	place_in_slot(c, slot, size, offset, &c->at);
	c->element = key;
	if (shape_find_path(&tuple, "__1", &offset, &c->value))
		place_in_slot(c, slot, size, offset, &c->value_at);
	return true;
}

/* Adds what finds the next slot in use before each element (Y9). */
static void step_table(struct container *c, uint8_t mask, uint8_t slot)
{
	get(&c->each, c->base);
	get(&c->each, mask);
	get(&c->each, slot);
	with(&c->each, DT_OP_ADD, 1);
	op(&c->each, DT_OP_TABLE_NEXT);
	set(&c->each, slot);
}

/* Pushes a member of the table inside of the one at `path`. */
static bool push_of_table(struct container *c, const char *path, const char *member)
{
	char whole[64];

	snprintf(whole, sizeof(whole), "%s.table.%s", path, member);
	return container_push(c, whole, 8, &c->code);
}

static bool add_table(struct container *c, const char *path, const struct type *table)
{
	uint8_t mask, slot;

	take_locals(c);
	mask = shape_local(c->shape);
	slot = shape_local(c->shape);
	if (!set_types(c, table, slot) || !push_of_table(c, path, "ctrl.pointer"))
		return false;
	set(&c->code, c->base);
	if (!push_of_table(c, path, "bucket_mask"))
		return false;
	set(&c->code, mask);
	ops_const(&c->code, UINT64_MAX); /* before the first */
	set(&c->code, slot);
	if (!push_of_table(c, path, "items"))
		return false;
	container_set_count(c);
	step_table(c, mask, slot);
	return container_finish(c);
}

bool rust_add_map(struct container *c)
{
	/* of a HashMap; of a HashSet, now and before */
	static const char *const paths[] = { "base.table", "base.map.table", "map.base.table" };
	struct type table;
	uint64_t offset;

	for (size_t i = 0; i < COUNT(paths) && shape_can_list(c->shape, 6); i++) {
		if (shape_find_path(c->type, paths[i], &offset, &table))
			return add_table(c, paths[i], &table);
	}
	return false;
}

/* ---- BTreeMap, BTreeSet ---------------------------------------------------------------------- */

/* Offsets of a node's members, as DT_OP_BTREE_NEXT has them. A node that isn't a leaf goes on with
 * the addresses of those below. */
static bool find_offsets(const struct type *leaf, uint64_t *ret_offsets)
{
	static const char *const members[] = { "parent", "parent_idx", "len" };
	uint64_t offset;

	if (leaf->size > UINT16_MAX)
		return false;
	*ret_offsets = leaf->size << 48;
	for (size_t i = 0; i < COUNT(members); i++) {
		if (!shape_find_path(leaf, members[i], &offset, NULL))
			return false;
		*ret_offsets |= offset << 16 * i;
	}
	return true;
}

/* Adds the place of entry number `index` of an array in the node. */
static void place_in_node(const struct container *c, uint8_t index, uint64_t size, uint64_t offset,
			  struct value_place *place)
{
	place->kind = PLACE_MEMORY;
	get(&place->ops, c->base);
	get(&place->ops, index);
	with(&place->ops, DT_OP_MUL, size);
	op(&place->ops, DT_OP_ADD);
	with(&place->ops, DT_OP_ADD, offset);
}

static bool set_node_types(struct container *c, const struct type *leaf, uint8_t index)
{
	uint64_t keys, values;

	if (!type_argument(leaf, 0, &c->element) || !type_argument(leaf, 1, &c->value) ||
	    !shape_find_path(leaf, "keys", &keys, NULL) ||
	    !shape_find_path(leaf, "vals", &values, NULL))
		return false;
	type_complete(c->shape->debug, &c->element);
	type_complete(c->shape->debug, &c->value);
	place_in_node(c, index, c->element.size, keys, &c->at);
	place_in_node(c, index, c->value.size, values, &c->value_at);
	return c->element.size != 0;
}

static void step_btree(struct container *c, uint8_t index, uint8_t height, uint64_t offsets)
{
	get(&c->each, c->base);
	get(&c->each, index);
	get(&c->each, height);
	ops_const(&c->each, offsets);
	op(&c->each, DT_OP_BTREE_NEXT); /* Y10 */
	set(&c->each, height);
	set(&c->each, index);
	set(&c->each, c->base);
}

static bool add_btree(struct container *c, const char *root, const char *height, const char *length)
{
	struct type pointer, leaf;
	uint8_t index, level;
	uint64_t offset, offsets;

	if (!shape_find_path(c->type, root, &offset, &pointer) || !shape_can_list(c->shape, 6))
		return false;
	type_target(&pointer, &leaf);
	type_complete(c->shape->debug, &leaf);
	take_locals(c);
	index = shape_local(c->shape);
	level = shape_local(c->shape);
	if (!find_offsets(&leaf, &offsets) || !set_node_types(c, &leaf, index) ||
	    !container_push(c, root, 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!container_push(c, height, 8, &c->code))
		return false;
	set(&c->code, level);
	ops_const(&c->code, UINT64_MAX); /* before the first */
	set(&c->code, index);
	if (!container_push(c, length, 8, &c->code))
		return false;
	container_set_count(c);
	step_btree(c, index, level, offsets);
	return container_finish(c);
}

bool rust_add_btree(struct container *c)
{
	struct type map;
	uint64_t offset;

	if (shape_find_path(c->type, "map", &offset, &map))
		return add_btree(c, "map.root.Some.__0.node.pointer", "map.root.Some.__0.height",
				 "map.length");
	return add_btree(c, "root.Some.__0.node.pointer", "root.Some.__0.height", "length");
}
