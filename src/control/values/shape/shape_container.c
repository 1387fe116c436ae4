/*
 * shape_container.c - containers of libstdc++ and of Rust: their size and their first elements;
 * optional values and smart pointers: what they hold.
 *
 * Names and members decide. A type of that name with other members is a plain struct.
 *
 * A container may be changing while it is read. What its members say is checked before it is
 * believed (DT_OP_CHECK); a container that makes no sense has no elements, and is listed as
 * unreadable.
 */
#include <string.h>

#include "shape_fields.h"

#define ELEMENTS_MAX 16u
#define BYTES_MAX (1ULL << 47) /* more than a process has */
#define TREE_VALUE 32u /* behind std::_Rb_tree_node_base */
#define LIST_VALUE 16u
#define HASH_VALUE 8u
#define DEQUE_BLOCK 512u

/* A container that is being added. */
struct container {
	struct shape *shape;
	const char *name;
	const struct type *type;
	const struct value_place *place;
	unsigned depth;
	struct type element;
	uint8_t count, number, base; /* local words */
	struct value_ops code; /* sets base and count */
	struct value_ops each;
	struct value_place at; /* of an element */
};

/* ---- operations ------------------------------------------------------------------------------ */

static void op(struct value_ops *ops, enum dt_op_code code)
{
	ops_add(ops, code, 0, 0, 0);
}

static void get(struct value_ops *ops, uint8_t local)
{
	ops_add(ops, DT_OP_GET, local, 0, 0);
}

static void set(struct value_ops *ops, uint8_t local)
{
	ops_add(ops, DT_OP_SET, local, 0, 0);
}

/* x -- x OP value */
static void with(struct value_ops *ops, enum dt_op_code code, uint64_t value)
{
	ops_const(ops, value);
	op(ops, code);
}

/* Pushes the number in a member. */
static bool push_member(const struct container *c, const char *path, uint32_t size,
			struct value_ops *ops)
{
	struct value_place part;
	uint64_t offset;

	if (!shape_find_path(c->type, path, &offset, NULL))
		return false;
	place_member(c->place, offset, &part);
	return place_push(&part, size, false, ops);
}

/* Checks that `count` elements can exist, and keeps it. */
static void set_count(struct container *c)
{
	set(&c->code, c->count);
	get(&c->code, c->count);
	with(&c->code, DT_OP_LEU, BYTES_MAX / (c->element.size ? c->element.size : 1));
	op(&c->code, DT_OP_CHECK);
	get(&c->code, c->count);
	set(&c->code, c->count); /* 0 if that failed */
}

/* ---- the common part ------------------------------------------------------------------------- */

static bool begin(struct container *c, unsigned argument, const struct type *generic)
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

/* Adds `{ size = 3, elements = [ ... ] }`. */
static bool finish(struct container *c)
{
	struct value_place size = { .kind = PLACE_VALUE };
	uint16_t blamed = c->shape->blamed;
	size_t index;

	if (c->code.failed || c->each.failed || c->at.ops.failed)
		return false;
	get(&size.ops, c->count);
	shape_begin_struct(c->shape, c->name, &index);
	if (!c->shape->blamed)
		c->shape->blamed = (uint16_t)(index + 1);
	shape_code(c->shape, &c->code, c->count);
	shape_number(c->shape, "size", FIELD_UINT, 8, false, &size);
	if (c->element.kind != TYPE_VOID && c->depth + 1 < c->shape->depth_max)
		shape_add_list(c->shape, "elements", &c->element, &c->at, c->count, c->number,
			       ELEMENTS_MAX, &c->each, c->depth + 1);
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
	if (!push_member(c, first, 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!push_member(c, last, 8, &c->code))
		return false;
	set(&c->code, end);
	get(&c->code, c->base);
	get(&c->code, end);
	op(&c->code, DT_OP_LEU);
	op(&c->code, DT_OP_CHECK);
	return true;
}

/* std::vector<bool>: a bit per element. */
static bool add_bits(struct container *c)
{
	uint8_t end = shape_local(c->shape);

	c->element = (struct type){ .kind = TYPE_BOOL, .size = 1 };
	if (!keep_span(c, "_M_impl._M_start._M_p", "_M_impl._M_finish._M_p", end))
		return false;
	get(&c->code, end);
	get(&c->code, c->base);
	op(&c->code, DT_OP_SUB);
	with(&c->code, DT_OP_SHL, 3);
	if (!push_member(c, "_M_impl._M_finish._M_offset", 4, &c->code))
		return false;
	op(&c->code, DT_OP_ADD);
	set_count(c);
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
	return finish(c);
}

static bool add_vector(struct container *c)
{
	uint64_t offset;

	if (!begin(c, 0, c->type))
		return false;
	if (shape_find_path(c->type, "_M_impl._M_start._M_p", &offset, NULL))
		return add_bits(c);
	uint8_t end = shape_local(c->shape);

	if (!c->element.size || !keep_span(c, "_M_impl._M_start", "_M_impl._M_finish", end))
		return false;
	get(&c->code, end);
	if (!push_member(c, "_M_impl._M_end_of_storage", 8, &c->code))
		return false;
	op(&c->code, DT_OP_LEU);
	op(&c->code, DT_OP_CHECK);
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
	set_count(c);
	lay_in_row(c);
	return finish(c);
}

/* A pointer and a number of elements. */
static bool add_row(struct container *c, const char *pointer, const char *count,
		    const char *capacity)
{
	if (!c->element.size || !push_member(c, pointer, 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!push_member(c, count, 8, &c->code))
		return false;
	set_count(c);
	if (capacity) {
		get(&c->code, c->count);
		if (!push_member(c, capacity, 8, &c->code))
			return false;
		op(&c->code, DT_OP_LEU);
		op(&c->code, DT_OP_CHECK);
		get(&c->code, c->count);
		set(&c->code, c->count);
	}
	lay_in_row(c);
	return finish(c);
}

static bool add_span(struct container *c)
{
	return begin(c, 0, c->type) && add_row(c, "_M_ptr", "_M_extent._M_extent_value", NULL);
}

static bool add_initializer_list(struct container *c)
{
	return begin(c, 0, c->type) && add_row(c, "_M_array", "_M_len", NULL);
}

static bool add_rust_vec(struct container *c)
{
	static const char *const paths[][2] = {
		{ "buf.inner.ptr.pointer.pointer", "buf.inner.cap.__0" },
		{ "buf.inner.ptr.pointer.pointer", "buf.inner.cap" },
		{ "buf.ptr.pointer.pointer", "buf.cap.__0" }, /* before 1.83 */
		{ "buf.ptr.pointer.pointer", "buf.cap" },
	};
	struct type type;
	uint64_t offset;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (shape_find_path(c->type, paths[i][0], &offset, NULL) &&
		    shape_find_path(c->type, paths[i][1], &offset, &type) && type.size == 8)
			return begin(c, 0, c->type) &&
			       add_row(c, paths[i][0], "len", paths[i][1]);
	}
	return false;
}

/* &[T], &mut [T], Box<[T]>: the target of a member is the element. */
static bool add_rust_slice(struct container *c)
{
	struct type pointer;
	uint64_t offset;

	if (!shape_find_path(c->type, "data_ptr", &offset, &pointer) ||
	    !shape_can_list(c->shape, 6))
		return false;
	type_target(&pointer, &c->element);
	type_complete(c->shape->debug, &c->element);
	c->count = shape_local(c->shape);
	c->number = shape_local(c->shape);
	c->base = shape_local(c->shape);
	c->at.kind = PLACE_MEMORY;
	return add_row(c, "data_ptr", "length", NULL);
}

/* Number of the element, counted from the first block's begin. */
static bool push_in_blocks(struct container *c, struct value_ops *ops)
{
	get(ops, c->number);
	if (!push_member(c, "_M_impl._M_start._M_cur", 8, ops) ||
	    !push_member(c, "_M_impl._M_start._M_first", 8, ops))
		return false;
	op(ops, DT_OP_SUB);
	with(ops, DT_OP_DIVU, c->element.size);
	op(ops, DT_OP_ADD);
	return true;
}

/* Pushes the difference of two members, in units of `size`. */
static bool push_distance(struct container *c, const char *to, const char *from, uint64_t size)
{
	if (!push_member(c, to, 8, &c->code) || !push_member(c, from, 8, &c->code))
		return false;
	op(&c->code, DT_OP_SUB);
	with(&c->code, DT_OP_DIVU, size);
	return true;
}

/* Blocks, and an array of their addresses. */
static bool add_deque(struct container *c)
{
	if (!begin(c, 0, c->type) || !c->element.size)
		return false;
	uint64_t size = c->element.size, block = size < DEQUE_BLOCK ? DEQUE_BLOCK / size : 1;

	if (!push_member(c, "_M_impl._M_start._M_node", 8, &c->code))
		return false;
	set(&c->code, c->base);
	get(&c->code, c->base);
	if (!push_member(c, "_M_impl._M_finish._M_node", 8, &c->code))
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
	set_count(c);
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
	return finish(c);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Alignment of a type, where the padding before it depends on it. */
static uint64_t alignment(const struct type *type, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct member member;
	struct type element;
	uint64_t most = 1;

	if (type->kind == TYPE_ARRAY) {
		type_count(type, &element);
		return depth < 8 ? alignment(&element, depth + 1) : 1;
	}
	if (type->kind != TYPE_STRUCT && type->kind != TYPE_UNION)
		return type->kind == TYPE_COMPLEX ? type->size / 2 : type->size;
	while (depth < 8 && type_next_member(type, &walk, &member)) {
		uint64_t align = alignment(&member.type, depth + 1);

		most = align > most ? align : most;
	}
	return most;
}

/* Nodes that lead to each other: base is the current one. `value`: offset of the element. */
static bool add_nodes(struct container *c, const char *first, const char *count, uint32_t value)
{
	if (!c->element.size || alignment(&c->element, 0) > 8 ||
	    !push_member(c, first, 8, &c->code))
		return false;
	set(&c->code, c->base);
	if (!push_member(c, count, 8, &c->code))
		return false;
	set_count(c);
	get(&c->at.ops, c->base);
	ops_add(&c->at.ops, DT_OP_OFFSET, 0, 0, value);
	return finish(c);
}

/* Steps to the next node before every element but the first. */
static void step(struct container *c, bool is_tree)
{
	get(&c->each, c->number);
	ops_add(&c->each, DT_OP_SKIP_ZERO, 0, 0, 3);
	get(&c->each, c->base);
	if (is_tree)
		op(&c->each, DT_OP_TREE_NEXT);
	else
		ops_add(&c->each, DT_OP_LOAD, 8, 0, 0);
	set(&c->each, c->base);
}

/* The head of a ring of nodes is none: there are fewer than the count says. */
static bool check_head(struct container *c, const char *path)
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
	op(&c->each, DT_OP_CHECK);
	return true;
}

static bool add_tree(struct container *c)
{
	struct type tree;
	uint64_t offset;

	if (!shape_find_path(c->type, "_M_t", &offset, &tree) || !begin(c, 1, &tree))
		return false;
	step(c, true);
	return check_head(c, "_M_t._M_impl._M_header") &&
	       add_nodes(c, "_M_t._M_impl._M_header._M_left", "_M_t._M_impl._M_node_count",
			 TREE_VALUE);
}

static bool add_hash(struct container *c)
{
	struct type table;
	uint64_t offset;

	if (!shape_find_path(c->type, "_M_h", &offset, &table) || !begin(c, 1, &table))
		return false;
	step(c, false);
	return add_nodes(c, "_M_h._M_before_begin._M_nxt", "_M_h._M_element_count", HASH_VALUE);
}

static bool add_list(struct container *c)
{
	if (!begin(c, 0, c->type))
		return false;
	step(c, false);
	return check_head(c, "_M_impl._M_node") &&
	       add_nodes(c, "_M_impl._M_node._M_next", "_M_impl._M_node._M_size", LIST_VALUE);
}

/* ---- one value or none ----------------------------------------------------------------------- */

/* `{ has_value = true, value = [ 5 ] }` */
static bool add_optional(struct container *c)
{
	struct value_place has = { .kind = PLACE_VALUE }, value;
	uint16_t blamed = c->shape->blamed;
	uint64_t offset;
	size_t index;

	if (c->depth + 1 >= c->shape->depth_max || !begin(c, 0, c->type) ||
	    !shape_find_path(c->type, "_M_payload._M_payload._M_value", &offset, NULL) ||
	    !push_member(c, "_M_payload._M_engaged", 1, &c->code))
		return false;
	place_member(c->place, offset, &value);
	set(&c->code, c->count);
	get(&c->code, c->count);
	with(&c->code, DT_OP_LEU, 1);
	op(&c->code, DT_OP_CHECK);
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

/* Smart pointers are followed once; further as --deref says. */
static bool may_follow(const struct shape *shape)
{
	return shape->derefs < (shape->deref ? shape->deref : 1);
}

/* With a deleter that needs no room the pointer is all there is. */
static bool add_unique_ptr(struct container *c)
{
	if (c->type->size != 8 || !type_argument(c->type, 0, &c->element))
		return false;
	if (!may_follow(c->shape) || !shape_target(c->shape, c->name, &c->element, c->place, NULL,
						   c->depth))
		shape_number(c->shape, c->name, FIELD_HEX, 8, false, c->place);
	return true;
}

/* Pushes the number of owners, 0 without any. */
static bool push_use_count(struct container *c, struct value_ops *ops)
{
	struct type pointer, counts;
	uint64_t offset;

	if (!shape_find_path(c->type, "_M_refcount._M_pi", &offset, &pointer))
		return false;
	type_target(&pointer, &counts);
	type_complete(c->shape->debug, &counts);
	if (!shape_find_path(&counts, "_M_use_count", &offset, NULL) ||
	    !push_member(c, "_M_refcount._M_pi", 8, ops))
		return false;
	size_t pushed = ops->count;

	ops_add(ops, DT_OP_SKIP_ZERO, 0, 0, (uint32_t)pushed + 3);
	push_member(c, "_M_refcount._M_pi", 8, ops);
	ops_add(ops, DT_OP_OFFSET, 0, 0, (uint32_t)offset);
	ops_add(ops, DT_OP_LOAD, 4, 1, 0);
	ops_add(ops, DT_OP_SKIP, 0, 0, 2);
	ops_const(ops, 0);
	return !ops->failed;
}

static bool add_shared_ptr(struct container *c)
{
	struct value_place address, counts = { .kind = PLACE_VALUE };
	uint64_t offset;

	if (!type_argument(c->type, 0, &c->element) ||
	    !shape_find_path(c->type, "_M_ptr", &offset, NULL) || !push_use_count(c, &counts.ops))
		return false;
	place_member(c->place, offset, &address);
	if (!may_follow(c->shape) || !shape_target(c->shape, c->name, &c->element, &address,
						   &counts, c->depth))
		shape_number(c->shape, c->name, FIELD_HEX, 8, false, &address);
	return true;
}

/* The counts of its owners are beside the value. */
static bool add_rust_rc(struct container *c)
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

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
	const char *name; /* of the template, or the whole beginning if it has a bracket */
	bool (*add)(struct container *c);
} containers[] = {
	{ "vector", add_vector },
	{ "map", add_tree },
	{ "multimap", add_tree },
	{ "set", add_tree },
	{ "multiset", add_tree },
	{ "unordered_map", add_hash },
	{ "unordered_multimap", add_hash },
	{ "unordered_set", add_hash },
	{ "unordered_multiset", add_hash },
	{ "list", add_list },
	{ "deque", add_deque },
	{ "span", add_span },
	{ "initializer_list", add_initializer_list },
	{ "optional", add_optional },
	{ "unique_ptr", add_unique_ptr },
	{ "shared_ptr", add_shared_ptr },
	{ "Vec", add_rust_vec },
	{ "Rc", add_rust_rc },
	{ "Arc", add_rust_rc },
	{ "&[", add_rust_slice },
	{ "&mut [", add_rust_slice },
	{ "Box<[", add_rust_slice },
	{ "alloc::boxed::Box<[", add_rust_slice },
};

static bool is_called(const char *called, const char *name)
{
	size_t length = strlen(name);

	return strncmp(called, name, length) == 0 &&
	       (name[length - 1] == '[' || called[length] == '<' || !called[length]);
}

bool shape_container(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth)
{
	Dwarf_Die die = type->die;
	const char *called = debug_name(&die);
	unsigned locals = shape->locals;
	bool is_added = false;

	for (size_t i = 0; called && shape->has_lists && !is_added &&
			   i < sizeof(containers) / sizeof(containers[0]); i++) {
		struct container c = { .shape = shape, .name = name, .type = type,
				       .place = place, .depth = depth };

		is_added = is_called(called, containers[i].name) && containers[i].add(&c);
		shape->locals = locals;
	}
	return is_added;
}
