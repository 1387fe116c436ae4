/*
 * shape_inside.c - what an expression finds inside of a type that holds other values: the target
 * of a smart pointer, the value of an optional, the size of a container.
 */
#include <string.h>

#include "elements.h"

/* The object that an Rc points to is one member of what it allocates, beside its counts. */
static const struct {
	const char *name; /* of the template */
	const char *pointer; /* a member; NULL: the first eight bytes, if there are no others */
	const char *object[2]; /* in the pointer's target; NULL: the template's argument */
} pointers[] = {
	{ "unique_ptr<", NULL, { NULL } },
	{ "shared_ptr<", "_M_ptr", { NULL } },
	{ "shared_ptr<", "__ptr_", { NULL } },
	{ "Rc<", "ptr.pointer", { "value" } },
	{ "Arc<", "ptr.pointer", { "data" } },
};

static bool begins(const struct type *type, const char *name)
{
	Dwarf_Die die = type->die;
	const char *called = type->kind == TYPE_STRUCT && !type->pointers ? debug_name(&die) : NULL;

	return called && strncmp(called, name, strlen(name)) == 0;
}

/* `pointer` is the type of the pointer to all that an Rc allocates, which is at `place`. */
static bool point_into(const struct type *pointer, const char *member, struct debug *debug,
		       struct value_place *place, struct type *ret_target)
{
	struct value_place object = { .kind = PLACE_VALUE };
	struct type whole;
	uint64_t offset;

	if (pointer->kind != TYPE_POINTER)
		return false; /* to a slice or a trait's object */
	type_target(pointer, &whole);
	type_complete(debug, &whole);
	if (!shape_find_path(&whole, member, &offset, ret_target) ||
	    !place_push(place, 8, false, &object.ops))
		return false;
	ops_add(&object.ops, DT_OP_OFFSET, 0, 0, (uint32_t)offset);
	*place = object;
	return true;
}

bool value_points(const struct type *type, const struct value_place *place, struct debug *debug,
		  struct type *ret_target, struct value_place *ret_pointer)
{
	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
		const char *const *object = pointers[i].object;
		struct value_place at = *place;
		struct type pointer, target;
		uint64_t offset = 0;

		if (!begins(type, pointers[i].name) ||
		    (pointers[i].pointer ?
			     !shape_find_path(type, pointers[i].pointer, &offset, &pointer) :
			     type->size != 8))
			continue;
		place_member(place, offset, &at);
		if (object[0] ? !point_into(&pointer, object[0], debug, &at, &target) :
				!type_argument(type, 0, &target))
			continue;
		if (target.kind == TYPE_ARRAY) /* unique_ptr<int[]> */
			type_target(&target, &target);
		*ret_target = target;
		*ret_pointer = at;
		return true;
	}
	return false;
}

bool value_optional(const struct type *type, const struct value_place *place,
		    struct type *ret_type, struct value_place *ret_place,
		    struct value_place *ret_has)
{
	static const char *const paths[][2] = {
		{ "_M_payload._M_payload._M_value", "_M_payload._M_engaged" },
		{ "__val_", "__engaged_" },
	};
	struct type flag;

	for (size_t i = 0; begins(type, "optional<") && i < sizeof(paths) / sizeof(paths[0]); i++) {
		uint64_t value, has;

		if (!shape_find_path(type, paths[i][0], &value, NULL) ||
		    !shape_find_path(type, paths[i][1], &has, &flag) || flag.size != 1 ||
		    !type_argument(type, 0, ret_type))
			continue;
		place_member(place, value, ret_place);
		place_member(place, has, ret_has);
		return true;
	}
	return false;
}

/* ---- containers ------------------------------------------------------------------------------ */

/* Members: the first element and the one behind the last; or how many there are, and where the
 * first one is if they lie in a row. */
struct row {
	const char *name; /* of the template, or how the name begins */
	const char *first, *last, *count;
};
static const struct row rows[] = {
	{ "vector<", "_M_impl._M_start", "_M_impl._M_finish", NULL },
	{ "vector<", "__begin_", "__end_", NULL },
	{ "span<", "_M_ptr", NULL, "_M_extent._M_extent_value" },
	{ "span<", "__data", NULL, "__size" },
	{ "initializer_list<", "_M_array", NULL, "_M_len" },
	{ "initializer_list<", "__begin_", NULL, "__size_" },
	{ "Vec<", "buf.inner.ptr.pointer.pointer", NULL, "len" },
	{ "Vec<", "buf.ptr.pointer.pointer", NULL, "len" },
	{ "&[", "data_ptr", NULL, "length" },
	{ "&mut [", "data_ptr", NULL, "length" },
	{ "Box<[", "data_ptr", NULL, "length" },
	{ "alloc::boxed::Box<[", "data_ptr", NULL, "length" },
	{ "[]", "array", NULL, "len" }, /* Go */
	{ "", NULL, NULL, "_M_t._M_impl._M_node_count" }, /* map, set */
	{ "", NULL, NULL, "__tree_.__pair3_.__value_" },
	{ "unordered_", NULL, NULL, "_M_h._M_element_count" },
	{ "unordered_", NULL, NULL, "__table_.__p2_.__value_" },
	{ "list<", NULL, NULL, "_M_impl._M_node._M_size" },
	{ "list<", NULL, NULL, "__size_alloc_.__value_" },
	{ "deque<", NULL, NULL, "__size_.__value_" },
	{ "VecDeque<", NULL, NULL, "len" },
	{ "Hash", NULL, NULL, "base.table.table.items" }, /* HashMap */
	{ "Hash", NULL, NULL, "base.map.table.table.items" }, /* HashSet */
	{ "BTree", NULL, NULL, "length" },
	{ "BTree", NULL, NULL, "map.length" },
};

/* Finds the row of a type, and the type of the pointer to its first element. */
static const struct row *find_row(const struct type *type, struct type *ret_pointer)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *end = rows[i].last ? rows[i].last : rows[i].count;
		struct type number;
		uint64_t offset;

		if (begins(type, rows[i].name) &&
		    shape_find_path(type, end, &offset, &number) && number.size == 8 &&
		    (!rows[i].first ||
		     (shape_find_path(type, rows[i].first, &offset, ret_pointer) &&
		      ret_pointer->kind == TYPE_POINTER)))
			return &rows[i];
	}
	return NULL;
}

static void find_element(const struct type *type, const struct type *pointer, struct debug *debug,
			 struct type *ret_element)
{
	if (!type_argument(type, 0, ret_element))
		type_target(pointer, ret_element); /* a slice has no arguments */
	type_complete(debug, ret_element);
}

static bool push_member(const struct type *type, const struct value_place *place, const char *path,
			struct value_ops *ops)
{
	struct value_place part;
	uint64_t offset;

	if (!shape_find_path(type, path, &offset, NULL))
		return false;
	place_member(place, offset, &part);
	return place_push(&part, 8, false, ops);
}

static bool push_count(const struct type *type, const struct value_place *place,
		       const struct row *row, uint64_t size, struct value_ops *ops)
{
	if (row->count)
		return push_member(type, place, row->count, ops);
	if (!size || !push_member(type, place, row->last, ops) ||
	    !push_member(type, place, row->first, ops))
		return false;
	op(ops, DT_OP_SUB);
	with(ops, DT_OP_DIVU, size);
	return true;
}

bool value_count(const struct type *type, const struct value_place *place, struct debug *debug,
		 struct value_ops *ops)
{
	struct type pointer, element = { .size = 0 };
	struct value_place address, length;
	const struct row *row;

	if (type->kind != TYPE_STRUCT)
		return false;
	if (value_text(type, place, &address, &length))
		return place_push(&length, 8, false, ops);
	row = find_row(type, &pointer);
	if (row && row->first)
		find_element(type, &pointer, debug, &element);
	return row && push_count(type, place, row, element.size, ops);
}

bool value_element(const struct type *type, const struct value_place *place, struct debug *debug,
		   struct value_ops *ops, struct type *ret_element)
{
	struct type pointer, element;
	const struct row *row = find_row(type, &pointer);

	if (!row || !row->first)
		return false;
	find_element(type, &pointer, debug, &element);
	ops_add(ops, DT_OP_PICK, 0, 0, 0);
	if (!element.size || !push_count(type, place, row, element.size, ops))
		return false;
	op(ops, DT_OP_LTU);
	op(ops, DT_OP_CHECK);
	with(ops, DT_OP_MUL, element.size);
	if (!push_member(type, place, row->first, ops))
		return false;
	op(ops, DT_OP_ADD);
	*ret_element = element;
	return !ops->failed;
}
