/*
 * elements.h - how the fields of a container are made; shared by shape_container.c
 * (libstdc++), shape_libcxx.c, shape_rust.c and shape_holder.c.
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
 * (Y9) A slot of a hash table counts only if it is one of the table's, and in use.
 * (Y10) A key of a B-tree counts only if its node has so many, and no node has more than 11.
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
	struct type value; /* of a map of Rust: the element is its key; size 0: none */
	struct value_place value_at;
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
void container_step_tree(struct container *c, uint8_t kind);
/* Alignment of a type, where the padding before it depends on it. */
uint64_t container_alignment(const struct type *type, unsigned depth);

/* ---- shape_holder.c -------------------------------------------------------------------------- */

/* One value or none. */
bool holder_add_maybe(struct container *c, const char *value, const char *has_value);
/* A pointer with a counter of owners behind another, `one` of which stands for one owner. */
bool holder_add_counted(struct container *c, const char *pointer, const char *counts,
			  const char *counter, uint32_t size, uint64_t one);
bool holder_add_optional(struct container *c);
bool holder_add_unique_ptr(struct container *c);
bool holder_add_shared_ptr(struct container *c);
/* Names of members: the index; the first alternative; of that, its holder, the value in the holder
 * (NULL: the holder's argument is its type), and the alternatives behind it. */
struct holder_variant {
	const char *tag, *values, *first, *value, *rest;
};
/* `{ index = 1, value_0 = [], value_1 = [ "text" ] }`: all alternatives are at one place. */
bool holder_add_one_of(struct container *c, const struct holder_variant *how);
bool holder_add_variant(struct container *c);
bool holder_add_tuple(struct container *c);
/* Smart pointers are followed once; further as --deref says. */
bool holder_may_follow(const struct shape *shape);

/* ---- shape_libcxx.c -------------------------------------------------------------------------- */

bool libcxx_add_vector(struct container *c);
bool libcxx_add_list(struct container *c);
bool libcxx_add_hash(struct container *c);
bool libcxx_add_tree(struct container *c);
bool libcxx_add_deque(struct container *c);
bool libcxx_add_span(struct container *c);
bool libcxx_add_initializer_list(struct container *c);
bool libcxx_add_variant(struct container *c);
bool libcxx_add_optional(struct container *c);
bool libcxx_add_shared_ptr(struct container *c);
/* The address and the length of a std::string, which may lie in the object itself. `unit`: bytes of
 * a character. False: none. */
bool libcxx_string(const struct type *type, const struct value_place *place, uint8_t unit,
		   struct value_place *ret_address, struct value_place *ret_length);

/* ---- shape_rust.c ---------------------------------------------------------------------------- */

bool rust_add_vec(struct container *c);
bool rust_add_slice(struct container *c);
bool go_add_slice(struct container *c);
bool rust_add_deque(struct container *c);
bool rust_add_map(struct container *c);
bool rust_add_btree(struct container *c);
bool rust_add_rc(struct container *c);

#endif
