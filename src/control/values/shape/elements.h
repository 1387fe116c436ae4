/*
 * elements.h - how the fields of a container are made; shared by shape_container.c (libstdc++,
 * Rust), shape_libcxx.c and shape_holder.c.
 *
 * Functions that add return false before they have added a field: the type isn't as expected.
 *
 * A container may be changing while it is read, or be none. What its members say is checked before
 * it is believed (DT_OP_CHECK): otherwise it has no elements, and is listed as unreadable.
 *
 * (Y5) A size counts only if so many elements fit into a process's memory.
 * (Y6) Pointers to elements count only in their order: first, end of elements, end of memory.
 * (Y7) A ring of nodes has no more elements than lie before its head.
 * (Y8) A flag of an optional value is 0 or 1, and a variant's index one of its alternatives or -1.
 */
#ifndef DYNTRACE_ELEMENTS_H
#define DYNTRACE_ELEMENTS_H

#include "shape_fields.h"

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

static inline void op(struct value_ops *ops, enum dt_op_code code)
{
	ops_add(ops, code, 0, 0, 0);
}

static inline void get(struct value_ops *ops, uint8_t local)
{
	ops_add(ops, DT_OP_GET, local, 0, 0);
}

static inline void set(struct value_ops *ops, uint8_t local)
{
	ops_add(ops, DT_OP_SET, local, 0, 0);
}

/* x -- x OP value */
static inline void with(struct value_ops *ops, enum dt_op_code code, uint64_t value)
{
	ops_const(ops, value);
	op(ops, code);
}

/* ---- shape_container.c ----------------------------------------------------------------------- */

/* Pushes the number in a member. */
bool container_push(const struct container *c, const char *path, uint32_t size,
		    struct value_ops *ops);
/* Takes the element's type from an argument of a template, and local words. */
bool container_begin(struct container *c, unsigned argument, const struct type *generic);
/* Checks that as many elements as on the stack can exist, and keeps the number. */
void container_set_count(struct container *c);
/* Adds `{ size = 3, elements = [ ... ] }`. */
bool container_finish(struct container *c);
/* Elements in a row: from a pointer to a pointer, with the end of the memory; a bit per element, as
 * many as c->code has kept; from a pointer, by number. */
bool container_add_span(struct container *c, const char *first, const char *last, const char *end);
bool container_finish_bits(struct container *c);
bool container_add_row(struct container *c, const char *pointer, const char *count,
		       const char *capacity);
/* Nodes that lead to each other by the pointer at `next`; the elements are at `value` in them. */
void container_step(struct container *c, uint32_t next);
bool container_check_head(struct container *c, const char *path);
bool container_add_nodes(struct container *c, const char *first, const char *count, uint32_t value);
/* Adds `{ size = 3 }`: its elements can't be reached in a few steps. */
bool container_add_size(struct container *c, const char *path);

/* ---- shape_holder.c -------------------------------------------------------------------------- */

/* One value or none. */
bool holder_add_maybe(struct container *c, const char *value, const char *has_value);
/* A pointer with a counter of owners behind another, `one` of which stands for one owner. */
bool holder_add_counted(struct container *c, const char *pointer, const char *counts,
			  const char *counter, uint32_t size, uint64_t one);
bool holder_add_optional(struct container *c);
bool holder_add_unique_ptr(struct container *c);
bool holder_add_shared_ptr(struct container *c);
bool holder_add_rust_rc(struct container *c);
bool holder_add_variant(struct container *c);

/* ---- shape_libcxx.c -------------------------------------------------------------------------- */

bool libcxx_add_vector(struct container *c);
bool libcxx_add_list(struct container *c);
bool libcxx_add_hash(struct container *c);
bool libcxx_add_tree(struct container *c);
bool libcxx_add_deque(struct container *c);
bool libcxx_add_optional(struct container *c);
bool libcxx_add_shared_ptr(struct container *c);
/* The address and the length of a std::string, which may lie in the object itself. False: none. */
bool libcxx_string(const struct type *type, const struct value_place *place,
		   struct value_place *ret_address, struct value_place *ret_length);

#endif
