/*
 * shape_fields.h - adding fields to an event: what shape.c, shape_text.c and shape_variant.c share.
 */
#ifndef DYNTRACE_SHAPE_FIELDS_H
#define DYNTRACE_SHAPE_FIELDS_H

#include "shape.h"

/* shape.c: a field, and what fills it in: the last one that was added. NULL: out of memory. */
struct event_field *shape_field(struct shape *shape, const char *name, enum field_type type,
				uint8_t size);
struct value_store *shape_store(struct shape *shape, enum dt_op_code code, uint8_t size,
				const struct value_place *place);
/* shape.c: a number; its size is 1, 2, 4 or 8. NULL: it is optimised out, and that is said. */
struct event_field *shape_number(struct shape *shape, const char *name, enum field_type type,
				 uint8_t size, bool is_signed, const struct value_place *place);
bool value_is_number_size(uint64_t size);
/* shape.c: a name of a number. */
void shape_label(struct shape *shape, struct event_field *field, const char *name, int64_t value);
/* shape.c: no value, and why. */
void shape_note(struct shape *shape, const char *name, const char *note);
void shape_gone(struct shape *shape, const char *name);
/* shape.c: a value of any type; `depth`: of structs around it. */
void shape_value(struct shape *shape, const char *name, const struct type *type,
		 const struct value_place *place, unsigned depth);

/* shape_text.c: a string, from the pointer at a place; `length` for those that have one. */
void shape_text(struct shape *shape, const char *name, const struct value_place *address,
		const struct value_place *length, enum dt_string mode);
/* shape_text.c: one of characters of 2 or 4 bytes, and whether a type is such a character. */
void shape_wide_text(struct shape *shape, const char *name, const struct value_place *pointer,
		     uint8_t unit);
bool value_is_wide(const struct type *type);
/* shape_text.c: a class or struct that is text. False: it isn't. */
bool shape_text_type(struct shape *shape, const char *name, const struct type *type,
		     const struct value_place *place);

/* shape_variant.c: the members of an enumeration with values in it. */
void shape_variants(struct shape *shape, const struct type *type, const struct member *tag,
		    const struct value_place *place, unsigned depth);

#endif
