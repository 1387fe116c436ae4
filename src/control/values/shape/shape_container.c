/*
 * shape_container.c - containers of libstdc++: their size and their first elements; the names of
 * all known ones.
 *
 * Names and members decide. A type of that name with other members is a plain struct.
 *
 * Rules Y5 to Y10 (elements.h) say what is believed.
 */
#include <string.h>

#include "elements.h"

#define ELEMENTS_MAX 16u
#define BYTES_MAX (1ULL << 47) /* more than a process has */
#define TREE_VALUE 32u /* behind std::_Rb_tree_node_base */
#define LIST_VALUE 16u
#define HASH_VALUE 8u
#define DEQUE_BLOCK 512u

bool container_push(const struct container *c, const char *path, uint32_t size,
		    struct value_ops *ops)
{
	struct value_place part;
	uint64_t offset;

	if (!shape_find_path(c->type, path, &offset, NULL))
		return false;
	place_member(c->place, offset, &part);
	return place_push(&part, size, false, ops);
}

void container_set_count(struct container *c)
{
	set(&c->code, c->count);
	get(&c->code, c->count);
	with(&c->code, DT_OP_LEU, BYTES_MAX / (c->element.size ? c->element.size : 1));
	op(&c->code, DT_OP_CHECK); /* Y5 */
	get(&c->code, c->count);
	set(&c->code, c->count); /* 0 if that failed */
}

/* ---- the common part ------------------------------------------------------------------------- */

bool container_begin(struct container *c, unsigned argument, const struct type *generic)
{
	if (!generic || !type_argument(generic, argument, &c->element) ||
	    !shape_can_list(c->shape, 6))
		return false;
	type_complete(c->shape->debug, &c->element);
	c->count = shape_local(c->shape);
	c->number = shape_local(c->shape);
	c->base = shape_local(c->shape);
	c->at.kind = PLACE_MEMORY;
	return true;
}

bool container_finish(struct container *c)
{
	struct list_element element = { &c->element, &c->at, NULL, NULL };
	struct value_place size = { .kind = PLACE_VALUE };
	uint16_t blamed = c->shape->blamed;
	size_t index;

	if (c->value.size) {
		element.second = &c->value;
		element.second_place = &c->value_at;
	}
	if (c->code.failed || c->each.failed || c->at.ops.failed || c->value_at.ops.failed)
		return false;
	get(&size.ops, c->count);
	shape_begin_struct(c->shape, c->name, &index);
	if (!c->shape->blamed)
		c->shape->blamed = (uint16_t)(index + 1);
	shape_code(c->shape, &c->code, c->count);
	shape_number(c->shape, "size", FIELD_UINT, 8, false, &size);
	if (c->element.kind != TYPE_VOID && c->depth + 1 < c->shape->depth_max)
		shape_add_list(c->shape, "elements", &element, c->count, c->number, ELEMENTS_MAX,
			       &c->each, c->depth + 1);
	c->shape->blamed = blamed;
	shape_end_struct(c->shape, c->name, index);
	return true;
}

/* An element's address: base + number * size. */
static void lay_in_row(struct container *c)
{
	get(&c->at.ops, c->base);
	get(&c->at.ops, c->number);
	with(&c->at.ops, DT_OP_MUL, c->element.size);
	op(&c->at.ops, DT_OP_ADD);
}

/* ---- in a row -------------------------------------------------------------------------------- */

/* Keeps the pointer to the first element in c->base and the one behind the last in `end`, and
 * checks their order. */
static bool keep_span(struct container *c, const char *first, const char *last, uint8_t end)
{
	if (!container_push(c, first, 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!container_push(c, last, 8, &c->code))
		return false;
	set(&c->code, end);
	get(&c->code, c->base);
	get(&c->code, end);
	op(&c->code, DT_OP_LEU);
	op(&c->code, DT_OP_CHECK);
	return true;
}

bool container_finish_bits(struct container *c)
{
	c->element = (struct type){ .kind = TYPE_BOOL, .size = 1 };
	c->at.kind = PLACE_VALUE;
	get(&c->at.ops, c->base);
	get(&c->at.ops, c->number);
	with(&c->at.ops, DT_OP_SHR, 3);
	op(&c->at.ops, DT_OP_ADD);
	ops_add(&c->at.ops, DT_OP_LOAD, 1, 0, 0);
	get(&c->at.ops, c->number);
	with(&c->at.ops, DT_OP_AND, 7);
	op(&c->at.ops, DT_OP_SHR);
	with(&c->at.ops, DT_OP_AND, 1);
	return container_finish(c);
}

/* std::vector<bool>: a bit per element. */
static bool add_bits(struct container *c)
{
	uint8_t end = shape_local(c->shape);

	c->element.size = 1;
	if (!keep_span(c, "_M_impl._M_start._M_p", "_M_impl._M_finish._M_p", end))
		return false;
	get(&c->code, end);
	get(&c->code, c->base);
	op(&c->code, DT_OP_SUB);
	with(&c->code, DT_OP_SHL, 3);
	if (!container_push(c, "_M_impl._M_finish._M_offset", 4, &c->code))
		return false;
	op(&c->code, DT_OP_ADD);
	container_set_count(c);
	return container_finish_bits(c);
}

bool container_add_span(struct container *c, const char *first, const char *last, const char *room)
{
	uint8_t end = shape_local(c->shape);

	if (!c->element.size || !keep_span(c, first, last, end))
		return false;
	get(&c->code, end);
	if (!container_push(c, room, 8, &c->code))
		return false;
	op(&c->code, DT_OP_LEU);
	op(&c->code, DT_OP_CHECK); /* Y6 */
	get(&c->code, end);
	get(&c->code, c->base);
	op(&c->code, DT_OP_SUB);
	set(&c->code, end);
	get(&c->code, end);
	with(&c->code, DT_OP_MODU, c->element.size);
	with(&c->code, DT_OP_EQ, 0);
	op(&c->code, DT_OP_CHECK);
	get(&c->code, end);
	with(&c->code, DT_OP_DIVU, c->element.size);
	container_set_count(c);
	lay_in_row(c);
	return container_finish(c);
}

static bool add_vector(struct container *c)
{
	uint64_t offset;

	if (!container_begin(c, 0, c->type))
		return false;
	if (shape_find_path(c->type, "_M_impl._M_start._M_p", &offset, NULL))
		return add_bits(c);
	return container_add_span(c, "_M_impl._M_start", "_M_impl._M_finish",
				  "_M_impl._M_end_of_storage");
}

bool container_add_row(struct container *c, const char *pointer, const char *count,
		       const char *capacity)
{
	if (!c->element.size || !container_push(c, pointer, 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!container_push(c, count, 8, &c->code))
		return false;
	container_set_count(c);
	if (capacity) {
		get(&c->code, c->count);
		if (!container_push(c, capacity, 8, &c->code))
			return false;
		op(&c->code, DT_OP_LEU);
		op(&c->code, DT_OP_CHECK);
		get(&c->code, c->count);
		set(&c->code, c->count);
	}
	lay_in_row(c);
	return container_finish(c);
}

static bool add_span(struct container *c)
{
	return container_begin(c, 0, c->type) &&
	       container_add_row(c, "_M_ptr", "_M_extent._M_extent_value", NULL);
}

static bool add_initializer_list(struct container *c)
{
	return container_begin(c, 0, c->type) && container_add_row(c, "_M_array", "_M_len", NULL);
}

/* Number of the element, counted from the first block's begin. */
static bool push_in_blocks(struct container *c, struct value_ops *ops)
{
	get(ops, c->number);
	if (!container_push(c, "_M_impl._M_start._M_cur", 8, ops) ||
	    !container_push(c, "_M_impl._M_start._M_first", 8, ops))
		return false;
	op(ops, DT_OP_SUB);
	with(ops, DT_OP_DIVU, c->element.size);
	op(ops, DT_OP_ADD);
	return true;
}

/* Pushes the difference of two members, in units of `size`. */
static bool push_distance(struct container *c, const char *to, const char *from, uint64_t size)
{
	if (!container_push(c, to, 8, &c->code) || !container_push(c, from, 8, &c->code))
		return false;
	op(&c->code, DT_OP_SUB);
	with(&c->code, DT_OP_DIVU, size);
	return true;
}

/* Blocks, and an array of their addresses. */
static bool add_deque(struct container *c)
{
	if (!container_begin(c, 0, c->type) || !c->element.size)
		return false;
	uint64_t size = c->element.size, block = size < DEQUE_BLOCK ? DEQUE_BLOCK / size : 1;

	if (!container_push(c, "_M_impl._M_start._M_node", 8, &c->code))
		return false;
	set(&c->code, c->base);
	get(&c->code, c->base);
	if (!container_push(c, "_M_impl._M_finish._M_node", 8, &c->code))
		return false;
	op(&c->code, DT_OP_LEU);
	op(&c->code, DT_OP_CHECK);
	if (!push_distance(c, "_M_impl._M_finish._M_node", "_M_impl._M_start._M_node", 8))
		return false;
	with(&c->code, DT_OP_MUL, block);
	if (!push_distance(c, "_M_impl._M_finish._M_cur", "_M_impl._M_finish._M_first", size))
		return false;
	op(&c->code, DT_OP_ADD);
	if (!push_distance(c, "_M_impl._M_start._M_cur", "_M_impl._M_start._M_first", size))
		return false;
	op(&c->code, DT_OP_SUB);
	container_set_count(c);
	get(&c->at.ops, c->base);
	if (!push_in_blocks(c, &c->at.ops))
		return false;
	with(&c->at.ops, DT_OP_DIVU, block);
	with(&c->at.ops, DT_OP_SHL, 3);
	op(&c->at.ops, DT_OP_ADD);
	ops_add(&c->at.ops, DT_OP_LOAD, 8, 0, 0);
	if (!push_in_blocks(c, &c->at.ops))
		return false;
	with(&c->at.ops, DT_OP_MODU, block);
	with(&c->at.ops, DT_OP_MUL, size);
	op(&c->at.ops, DT_OP_ADD);
	return container_finish(c);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

uint64_t container_alignment(const struct type *type, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct member member;
	struct type element;
	uint64_t most = 1;

	if (type->kind == TYPE_ARRAY) {
		type_count(type, &element);
		return depth < 8 ? container_alignment(&element, depth + 1) : 1;
	}
	if (type->kind != TYPE_STRUCT && type->kind != TYPE_UNION)
		return type->kind == TYPE_COMPLEX ? type->size / 2 : type->size;
	while (depth < 8 && type_next_member(type, &walk, &member)) {
		uint64_t align = container_alignment(&member.type, depth + 1);

		most = align > most ? align : most;
	}
	return most;
}

/* base is the current one. */
bool container_add_nodes(struct container *c, const char *first, const char *count, uint32_t value)
{
	if (!c->element.size || container_alignment(&c->element, 0) > 8 ||
	    !container_push(c, first, 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!container_push(c, count, 8, &c->code))
		return false;
	container_set_count(c);
	get(&c->at.ops, c->base);
	ops_add(&c->at.ops, DT_OP_OFFSET, 0, 0, value);
	return container_finish(c);
}

/* Steps to the next node before every element but the first: by the operations in `next`. */
static void step(struct container *c, const struct value_ops *next)
{
	get(&c->each, c->number);
	ops_add(&c->each, DT_OP_SKIP_ZERO, 0, 0, (uint32_t)next->count + 2);
	get(&c->each, c->base);
	ops_append(&c->each, next);
	set(&c->each, c->base);
}

void container_step(struct container *c, uint32_t next)
{
	struct value_ops ops = { 0 };

	if (next)
		ops_add(&ops, DT_OP_OFFSET, 0, 0, next);
	ops_add(&ops, DT_OP_LOAD, 8, 0, 0);
	step(c, &ops);
}

void container_step_tree(struct container *c, uint8_t kind)
{
	struct value_ops ops = { 0 };

	ops_add(&ops, DT_OP_TREE_NEXT, kind, 0, 0);
	step(c, &ops);
}

/* The head of a ring of nodes is none: there are fewer than the count says. */
bool container_check_head(struct container *c, const char *path)
{
	struct value_place head;
	uint64_t offset;

	get(&c->each, c->base);
	if (!shape_find_path(c->type, path, &offset, NULL))
		return false;
	place_member(c->place, offset, &head);
	if (!place_push_address(&head, &c->each))
		return false;
	op(&c->each, DT_OP_NE);
	op(&c->each, DT_OP_CHECK); /* Y7 */
	return true;
}

static bool add_tree(struct container *c)
{
	struct type tree;
	uint64_t offset;

	if (!shape_find_path(c->type, "_M_t", &offset, &tree) || !container_begin(c, 1, &tree))
		return false;
	container_step_tree(c, 0);
	return container_check_head(c, "_M_t._M_impl._M_header") &&
	       container_add_nodes(c, "_M_t._M_impl._M_header._M_left", "_M_t._M_impl._M_node_count",
			 TREE_VALUE);
}

static bool add_hash(struct container *c)
{
	struct type table;
	uint64_t offset;

	if (!shape_find_path(c->type, "_M_h", &offset, &table) || !container_begin(c, 1, &table))
		return false;
	container_step(c, 0);
	return container_add_nodes(c, "_M_h._M_before_begin._M_nxt", "_M_h._M_element_count",
				   HASH_VALUE);
}

static bool add_list(struct container *c)
{
	if (!container_begin(c, 0, c->type))
		return false;
	container_step(c, 0);
	return container_check_head(c, "_M_impl._M_node") &&
	       container_add_nodes(c, "_M_impl._M_node._M_next", "_M_impl._M_node._M_size",
				   LIST_VALUE);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
	const char *name; /* of the template, or the whole beginning if it has a bracket */
	bool (*add)(struct container *c);
	bool has_elements; /* outside of the object */
} containers[] = {
	{ "vector", add_vector, true },
	{ "vector", libcxx_add_vector, true },
	{ "map", add_tree, true },
	{ "map", libcxx_add_tree, true },
	{ "multimap", add_tree, true },
	{ "multimap", libcxx_add_tree, true },
	{ "set", add_tree, true },
	{ "set", libcxx_add_tree, true },
	{ "multiset", add_tree, true },
	{ "multiset", libcxx_add_tree, true },
	{ "unordered_map", add_hash, true },
	{ "unordered_map", libcxx_add_hash, true },
	{ "unordered_multimap", add_hash, true },
	{ "unordered_multimap", libcxx_add_hash, true },
	{ "unordered_set", add_hash, true },
	{ "unordered_set", libcxx_add_hash, true },
	{ "unordered_multiset", add_hash, true },
	{ "unordered_multiset", libcxx_add_hash, true },
	{ "list", add_list, true },
	{ "list", libcxx_add_list, true },
	{ "deque", add_deque, true },
	{ "deque", libcxx_add_deque, true },
	{ "span", add_span, true },
	{ "span", libcxx_add_span, true },
	{ "initializer_list", add_initializer_list, true },
	{ "initializer_list", libcxx_add_initializer_list, true },
	{ "optional", holder_add_optional, false },
	{ "optional", libcxx_add_optional, false },
	{ "unique_ptr", holder_add_unique_ptr, false },
	{ "shared_ptr", holder_add_shared_ptr, false },
	{ "shared_ptr", libcxx_add_shared_ptr, false },
	{ "variant", holder_add_variant, false },
	{ "variant", libcxx_add_variant, false },
	{ "tuple", holder_add_tuple, false },
	{ "Vec", rust_add_vec, true },
	{ "VecDeque", rust_add_deque, true },
	{ "HashMap", rust_add_map, true },
	{ "HashSet", rust_add_map, true },
	{ "BTreeMap", rust_add_btree, true },
	{ "BTreeSet", rust_add_btree, true },
	{ "Rc", rust_add_rc, false },
	{ "Arc", rust_add_rc, false },
	{ "&[", rust_add_slice, true },
	{ "&mut [", rust_add_slice, true },
	{ "Box<[", rust_add_slice, true },
	{ "alloc::boxed::Box<[", rust_add_slice, true },
	{ "[]", go_add_slice, true },
};

static bool is_called(const char *called, const char *name)
{
	size_t length = strlen(name);

	return strncmp(called, name, length) == 0 &&
	       (strchr("[]", name[length - 1]) || called[length] == '<' || !called[length]);
}

bool shape_container(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	Dwarf_Die die = type->die;
	const char *called = debug_name(&die);
	unsigned locals = shape->locals;
	bool is_added = false;

	for (size_t i = 0; called && !is_added && i < sizeof(containers) / sizeof(containers[0]);
	     i++) {
		struct container c = { .shape = shape, .name = name, .type = type,
				       .place = place, .depth = depth };

		if (!is_called(called, containers[i].name))
			continue;
		if (!shape->has_lists && containers[i].has_elements)
			shape->unlisted = called;
		is_added = shape->has_lists && containers[i].add(&c);
		shape->locals = locals;
	}
	return is_added;
}
