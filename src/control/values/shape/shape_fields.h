/*
 * shape_fields.h - functions that add fields; shared by the files of this folder.
 */
#ifndef DYNTRACE_SHAPE_FIELDS_H
#define DYNTRACE_SHAPE_FIELDS_H

#include "shape.h"

/* shape.c: adds a field and the store that fills it in. NULL: out of memory. */
struct event_field *shape_field(struct shape *shape, const char *name, enum field_type type,
				uint8_t size);
struct value_store *shape_store(struct shape *shape, enum dt_op_code code, uint8_t size,
				const struct value_place *place);
/* shape.c: adds a number; its size is 1, 2, 4 or 8. NULL: optimised out; a note was added. */
struct event_field *shape_number(struct shape *shape, const char *name, enum field_type type,
				 uint8_t size, bool is_signed, const struct value_place *place);
bool value_is_number_size(uint64_t size);
/* shape.c: adds a label for a value of an enumeration. */
void shape_label(struct shape *shape, struct event_field *field, const char *name, int64_t value);
/* shape.c: adds a note instead of a value. */
void shape_note(struct shape *shape, const char *name, const char *note);
void shape_gone(struct shape *shape, const char *name);
/* shape.c: adds a value of any type; `depth`: number of structs around it. */
void shape_value(struct shape *shape, const char *name, const struct type *type,
		 const struct value_place *place, unsigned depth);

/* shape_text.c: adds a string, from the pointer at a place; `length` may be NULL. */
void shape_text(struct shape *shape, const char *name, const struct value_place *address,
		const struct value_place *length, enum dt_string mode);
/* shape_text.c: adds a string of characters of 2 or 4 bytes. */
void shape_wide_text(struct shape *shape, const char *name, const struct value_place *pointer,
		     uint8_t unit);
/* shape_text.c: adds a class or struct that is text. False: not text. */
bool shape_text_type(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place);

/* shape_text.c: the offset of member a.b.c, and its type, which may be NULL. */
bool shape_find_path(const struct type *type, const char *path, uint64_t *ret_offset,
		     struct type *ret_type);
/* shape_text.c: adds an integer of 16 bytes, as a decimal string. */
void shape_wide_number(struct shape *shape, const char *name, bool is_signed,
		       const struct value_place *place);

/* shape.c: begins a struct, and ends it. */
void shape_begin_struct(struct shape *shape, const char *name, size_t *ret_index);
void shape_end_struct(struct shape *shape, const char *name, size_t index);
/* shape.c: adds a bool, whose name is of two. */
void shape_bool(struct shape *shape, const char *name, uint8_t size,
		const struct value_place *place);

/* shape_list.c: is there room for a list with that many local words? */
bool shape_can_list(const struct shape *shape, unsigned locals);
/* shape_list.c: a local word; they are given back by their number (shape->locals). */
uint8_t shape_local(struct shape *shape);
/* shape_list.c: adds operations that run before the next field. The last one sets `count`, which is
 * 0 where a guard says so. */
void shape_code(struct shape *shape, const struct value_ops *ops, uint8_t count);
/* An element of a list. `second`: of a map whose keys and values lie apart; else NULL. */
struct list_element {
	const struct type *type;
	const struct value_place *place; /* by the list's local words */
	const struct type *second;
	const struct value_place *second_place;
};
/* shape_list.c: adds a list of up to `most` elements, in the local word `count`. `each`: operations
 * that begin an element; may be NULL. The local word `number` has the element's number. */
void shape_add_list(struct shape *shape, const char *name, const struct list_element *element,
		    uint8_t count, uint8_t number, uint16_t most, const struct value_ops *each,
		    unsigned depth);

/* shape_container.c: adds a container, an optional value or a smart pointer by its contents. False:
 * not such a type. */
bool shape_container(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth);

/* shape_pointer.c: adds pointers and references. */
void shape_pointer(struct shape *shape, const char *name, const struct type *type,
		   const struct value_place *place, unsigned depth);
void shape_reference(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place, unsigned depth);
/* shape_pointer.c: adds an address, and what is there. `counts`: NULL, or a number of references
 * to it. False: it can't be followed; nothing was added. */
bool shape_target(struct shape *shape, const char *name, const struct type *target,
		  const struct value_place *address, const struct value_place *counts,
		  unsigned depth);

/* shape_variant.c: adds the members of an enumeration with values in it. */
void shape_variants(struct shape *shape, const struct type *type, const struct member *tag,
		    const struct value_place *place, unsigned depth);

#endif
