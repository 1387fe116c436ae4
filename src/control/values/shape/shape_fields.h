/*
 * shape_fields.h - functions that add fields; shared by shape.c, shape_text.c and shape_variant.c.
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
/* shape_text.c: adds a string of characters of 2 or 4 bytes; is a type such a character? */
void shape_wide_text(struct shape *shape, const char *name, const struct value_place *pointer,
		     uint8_t unit);
bool value_is_wide(const struct type *type);
/* shape_text.c: adds a class or struct that is text. False: not text. */
bool shape_text_type(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place);

/* shape_variant.c: adds the members of an enumeration with values in it. */
void shape_variants(struct shape *shape, const struct type *type, const struct member *tag,
		    const struct value_place *place, unsigned depth);

#endif
