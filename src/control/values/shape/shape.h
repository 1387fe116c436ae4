/*
 * shape.h - from the types and places of values to the fields of an event, and to the code or
 * program that fills them in at each hit.
 *
 *	shape_init
 *	shape_add ...		a value by its type and place: one field, or a struct of them
 *	shape_finish		the layout; then `event` and `fields` can be used
 *	shape_free
 *
 * An event is *plain* if each of its numbers is in a register or in the frame: the trampoline
 * stores them itself, at fixed places. If one needs a read through a pointer, the event is
 * *gathered*: the agent runs a program (src/shared/program.h), and the event's size varies.
 *
 * Pure.
 */
#ifndef DYNTRACE_SHAPE_H
#define DYNTRACE_SHAPE_H

#include "control/base/vec.h"
#include "control/event/event.h"
#include "control/values/where/value_place.h"

#define VALUE_STRING_DEFAULT 256u
#define VALUE_FRAMES_DEFAULT 32u

/* Where the characters of a std::string, a &str or the like are, and how many. False: not such a
 * type. */
bool value_text(const struct type *type, const struct value_place *place,
		struct value_place *ret_address, struct value_place *ret_length);

/* Is a type a character of 2 or 4 bytes? */
bool value_is_wide(const struct type *type);

/* shape_inside.c: a smart pointer of C++, or an Rc: where its pointer is, and the pointer's target.
 * False: another type. */
bool value_points(const struct type *type, const struct value_place *place, struct debug *debug,
		  struct type *ret_target, struct value_place *ret_pointer);
/* shape_inside.c: a std::optional: its value, and a byte that is 1 if there is one. */
bool value_optional(const struct type *type, const struct value_place *place,
		    struct type *ret_type, struct value_place *ret_place,
		    struct value_place *ret_has);
/* shape_inside.c: pushes the number of a container's elements, or of a text's bytes. */
bool value_count(const struct type *type, const struct value_place *place, struct debug *debug,
		 struct value_ops *ops);
/* shape_inside.c: the address of an element by its number [number -- address]. What is behind the
 * last one counts as unreadable. False: its elements don't lie in a row. */
bool value_element(const struct type *type, const struct value_place *place, struct debug *debug,
		   struct value_ops *ops, struct type *ret_element);
/* shape_variant.c: pushes whether an enumeration with values (Rust) has this variant now. False:
 * it never has. */
bool value_is_variant(const struct type *type, const struct value_place *place, const char *name,
		      struct value_ops *ops);

struct value_store {
	struct value_place place;
	uint8_t code; /* DT_OP_STORE or another storing operation */
	uint8_t size; /* of the field, and its alignment */
	uint8_t load; /* bytes to load (of a bit field's storage); DT_OP_STRING: per character */
	uint16_t count; /* DT_OP_COPY: bytes; DT_OP_STRING: limit; DT_OP_BACKTRACE: frames */
	uint8_t bit_offset, bit_size; /* of a bit field */
	bool is_signed;
	uint16_t field;
	uint16_t offset; /* in a plain event */
	struct value_place length; /* DT_OP_STRING with a length of its own */
	uint8_t mode; /* enum dt_string */
	uint16_t guard; /* number of the shape's guard, from 1: stores 0 if it is 0; 0: none */
	uint16_t blamed; /* number of the field that is listed if this can't be read; from 1 */
};

/* Operations that run before a field is stored. */
struct shape_code {
	uint16_t field;
	struct value_ops ops;
};

/* A list: a FIELD_LIST, its element's fields, and a FIELD_END. */
struct shape_list {
	uint16_t field, end;
	uint16_t blamed;
	uint16_t most; /* elements */
	uint8_t local; /* gets the element's number */
	struct value_ops count, each; /* leaves the number of elements; begins an element */
};

struct value_texts {
	char *items;
	size_t count;
	size_t room;
};

struct shape {
	struct event_field *fields; /* owned, with their labels, until shape_take_fields */
	size_t field_count, field_room;
	VEC(struct value_store) stores;
	VEC(struct value_ops) guards;
	uint16_t guard; /* for stores added now */
	uint16_t blamed; /* likewise */
	VEC(struct shape_code) codes;
	VEC(struct shape_list) lists;
	bool has_lists; /* whoever takes the event knows lists; else containers are plain structs */
	const char *unlisted; /* the type of such a container; NULL: none */
	unsigned list_depth, locals; /* of lists around what is added now; local words in use */
	unsigned deref, derefs; /* levels of pointers to follow; followed so far */
	struct value_ops condition; /* of a gathered event: result 0 means no event */
	struct tramp_limits limits; /* of a gathered event with a condition: apply after it */
	struct value_texts texts; /* patterns of the condition */
	struct debug *debug; /* completes types that are only declared; may be NULL */
	bool has_key, key_is_number; /* count by key: the fields are the key, or `key` leaves it */
	struct value_ops key, value; /* likewise: a number; what is summed up, if count isn't 0 */
	uint32_t string_max;
	uint32_t size_most; /* bytes of a gathered event; 0: as many as an event may have */
	unsigned depth_max; /* levels of structs in structs; deeper ones aren't recorded */
	size_t steps; /* members visited: bounds structs that hold themselves */
	bool is_gathered;
	bool failed; /* out of memory, or a program too long */
	bool is_too_long; /* shape_finish: might fit with shorter strings, or fewer levels */
	bool has_too_many; /* shape_finish: might fit with fewer levels */
};

#define SHAPE_DEPTH_MAX 8
void shape_init(struct shape *shape, struct debug *debug, uint32_t string_max);
void shape_free(struct shape *shape);

/* Adds a value; a struct becomes its members. */
void shape_add(struct shape *shape, const char *name, const struct type *type,
	       const struct value_place *place);
/* Adds a number. */
void shape_add_number(struct shape *shape, const char *name, enum field_type type, uint8_t size,
		      const struct value_place *place);
/* Adds a NUL-terminated string, from the pointer at a place. */
void shape_add_string(struct shape *shape, const char *name, const struct value_place *pointer);
/* Adds a field that the agent knows how to fill: DT_OP_BACKTRACE, DT_OP_COMM. */
void shape_add_special(struct shape *shape, const char *name, enum dt_op_code code, uint16_t count);

/* Can the trampoline store all fields? Overwrites `scratch`. */
bool shape_is_plain(struct shape *shape, struct tramp_event *scratch);

/*
 * Lays out the event: its size, and the trampoline's fields or the agent's program (*ret_program,
 * owned by the caller; NULL for a plain event). The caller fills in the program's id and rip.
 */
struct error *shape_finish(struct shape *shape, struct tramp_event *event,
			   struct dt_program **ret_program, size_t *ret_program_size);

#endif
