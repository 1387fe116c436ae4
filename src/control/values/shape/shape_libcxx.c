/*
 * shape_libcxx.c - containers of LLVM's libc++ (clang++ -stdlib=libc++).
 */
#include <string.h>

#include "elements.h"

#define DEQUE_BLOCK 4096u
#define DEQUE_SMALL 256u /* larger elements are so many in a block: */
#define DEQUE_LARGE_COUNT 16u
#define LIST_NEXT 8u
#define LIST_VALUE 16u
#define HASH_VALUE 16u /* behind the next node and the hash */
#define TREE_KIND 1u /* of DT_OP_TREE_NEXT */
#define TREE_HEAD 25u /* bytes before the value of a node: three pointers and a colour */

bool libcxx_add_vector(struct container *c)
{
	uint64_t offset;

	if (!container_begin(c, 0, c->type))
		return false;
	if (!shape_find_path(c->type, "__size_", &offset, NULL))
		return container_add_span(c, "__begin_", "__end_", "__end_cap_.__value_");
	/* std::vector<bool>: words of 64 bits, which are bytes in the same order */
	if (!container_push(c, "__begin_", 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!container_push(c, "__size_", 8, &c->code))
		return false;
	container_set_count(c);
	return container_finish_bits(c);
}

bool libcxx_add_list(struct container *c)
{
	if (!container_begin(c, 0, c->type))
		return false;
	container_step(c, LIST_NEXT);
	return container_check_head(c, "__end_") &&
	       container_add_nodes(c, "__end_.__next_", "__size_alloc_.__value_", LIST_VALUE);
}

bool libcxx_add_hash(struct container *c)
{
	struct type table, pair;
	uint64_t offset;

	if (!shape_find_path(c->type, "__table_", &offset, &table) ||
	    !container_begin(c, 0, &table))
		return false;
	if (shape_find_path(&c->element, "__cc", &offset, &pair)) /* of a map */
		c->element = pair;
	container_step(c, 0);
	return container_add_nodes(c, "__table_.__p1_.__value_.__next_", "__table_.__p2_.__value_",
				   HASH_VALUE);
}

/* The value begins where the members before it end, not their struct. */
bool libcxx_add_tree(struct container *c)
{
	struct type tree, pair;
	uint64_t offset, align;

	if (!shape_find_path(c->type, "__tree_", &offset, &tree) || !container_begin(c, 0, &tree))
		return false;
	if (shape_find_path(&c->element, "__cc", &offset, &pair)) /* of a map */
		c->element = pair;
	align = container_alignment(&c->element, 0);
	container_step_tree(c, TREE_KIND);
	return align && container_check_head(c, "__tree_.__pair1_") &&
	       container_add_nodes(c, "__tree_.__begin_node_", "__tree_.__pair3_.__value_",
				   (uint32_t)((TREE_HEAD + align - 1) / align * align));
}

bool libcxx_add_span(struct container *c)
{
	return container_begin(c, 0, c->type) && container_add_row(c, "__data", "__size", NULL);
}

bool libcxx_add_initializer_list(struct container *c)
{
	return container_begin(c, 0, c->type) &&
	       container_add_row(c, "__begin_", "__size_", NULL);
}

bool libcxx_add_variant(struct container *c)
{
	static const struct holder_variant how = { "__impl.__index", "__impl.__data", "__head",
						   "__value", "__tail" };

	return holder_add_one_of(c, &how);
}

/* Pushes the element's number, counted from the first block. */
static bool push_in_blocks(struct container *c)
{
	get(&c->at.ops, c->number);
	if (!container_push(c, "__start_", 8, &c->at.ops))
		return false;
	op(&c->at.ops, DT_OP_ADD);
	return true;
}

/* Blocks, and an array of their addresses. */
bool libcxx_add_deque(struct container *c)
{
	struct value_ops *at = &c->at.ops;
	uint64_t block;

	if (!container_begin(c, 0, c->type) || !c->element.size ||
	    !container_push(c, "__map_.__begin_", 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!container_push(c, "__size_.__value_", 8, &c->code))
		return false;
	container_set_count(c);
	block = c->element.size < DEQUE_SMALL ? DEQUE_BLOCK / c->element.size : DEQUE_LARGE_COUNT;
	get(at, c->base);
	if (!push_in_blocks(c))
		return false;
	with(at, DT_OP_DIVU, block);
	with(at, DT_OP_SHL, 3);
	op(at, DT_OP_ADD);
	ops_add(at, DT_OP_LOAD, 8, 0, 0);
	if (!push_in_blocks(c))
		return false;
	with(at, DT_OP_MODU, block);
	with(at, DT_OP_MUL, c->element.size);
	op(at, DT_OP_ADD);
	return container_finish(c);
}

bool libcxx_add_optional(struct container *c)
{
	return holder_add_maybe(c, "__val_", "__engaged_");
}

/* The counter is one less than the number of owners. */
bool libcxx_add_shared_ptr(struct container *c)
{
	return holder_add_counted(c, "__ptr_", "__cntrl_", "__shared_owners_", 8, 1);
}

/* x is on the stack: of the long form if the object's first bit is set, else of the short one. */
static bool choose(const struct value_place *whole, const struct value_ops *of_long,
		   const struct value_ops *of_short, struct value_place *ret_place)
{
	struct value_ops *ops = &ret_place->ops;

	*ret_place = (struct value_place){ .kind = PLACE_VALUE };
	if (!place_push(whole, 1, false, ops))
		return false;
	with(ops, DT_OP_AND, 1);
	ops_add(ops, DT_OP_SKIP_ZERO, 0, 0, (uint32_t)of_long->count + 1);
	ops_append(ops, of_long);
	ops_add(ops, DT_OP_SKIP, 0, 0, (uint32_t)of_short->count);
	ops_append(ops, of_short);
	return !ops->failed;
}

bool libcxx_string(const struct type *type, const struct value_place *place, uint8_t unit,
		   struct value_place *ret_address, struct value_place *ret_length)
{
	struct value_ops pointer = { 0 }, size = { 0 }, inside = { 0 }, short_size = { 0 };
	struct value_place part;
	uint64_t data, length, characters;

	if (!shape_find_path(type, "__r_.__value_.__l.__data_", &data, NULL) ||
	    !shape_find_path(type, "__r_.__value_.__l.__size_", &length, NULL) ||
	    !shape_find_path(type, "__r_.__value_.__s.__data_", &characters, NULL) ||
	    characters != unit) /* the first byte tells the form and the length */
		return false;
	place_member(place, data, &part);
	if (!place_push(&part, 8, false, &pointer))
		return false;
	place_member(place, length, &part);
	if (!place_push(&part, 8, false, &size))
		return false;
	place_member(place, characters, &part);
	if (!place_push_address(&part, &inside) || !place_push(place, 1, false, &short_size))
		return false;
	with(&short_size, DT_OP_SHR, 1);
	return choose(place, &pointer, &inside, ret_address) &&
	       choose(place, &size, &short_size, ret_length);
}
