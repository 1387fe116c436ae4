/*
 * shape.h - what an event holds: from the types and places of values to the event's fields, and to
 * what fills them in at each hit.
 *
 *	shape_init
 *	shape_add ...		a value by its type and place: one field, or a struct of them
 *	shape_finish		the layout; then `event` and `fields` can be used
 *	shape_free
 *
 * An event is *plain* when each of its numbers is in a register or in the frame: the trampoline
 * stores them itself, at fixed places. As soon as one has to be looked up behind a pointer, the
 * event is *gathered*: the agent runs a program (src/shared/program.h), and its size varies.
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

/* Where the characters of a std::string, a &str or the like are, and how many. False: the type is
 * no such one. */
bool value_text(const struct type *type, const struct value_place *place,
		struct value_place *ret_address, struct value_place *ret_length);


struct value_store {
	struct value_place place;
	uint8_t code; /* DT_OP_STORE or another that stores */
	uint8_t size; /* of the field, and its alignment */
	uint8_t load; /* bytes to load: those that hold a bit field; DT_OP_STRING: of a character */
	uint16_t count; /* DT_OP_COPY: bytes; DT_OP_STRING: most; DT_OP_BACKTRACE: frames */
	uint8_t bit_offset, bit_size; /* of a bit field */
	bool is_signed;
	uint16_t field;
	uint16_t offset; /* in a plain event */
	struct value_place length; /* DT_OP_STRING with a length of its own */
	uint8_t mode; /* enum dt_string */
	uint16_t guard; /* one of the shape's, from 1 on: where that is 0, so is this; 0: none */
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
	uint16_t guard; /* of the stores that are added now */
	struct value_ops condition; /* of a gathered event: none if it is 0 */
	struct tramp_limits limits; /* of a gathered event with a condition: they come behind it */
	struct value_texts texts; /* that the condition matches with */
	struct debug *debug; /* to complete types that are only declared; may be NULL */
	uint32_t string_max;
	size_t steps; /* members looked at: a struct that holds itself has no end */
	bool is_gathered;
	bool failed; /* out of memory, or a program too long */
	bool is_too_long; /* shape_finish: with shorter strings it might have fitted */
};

void shape_init(struct shape *shape, struct debug *debug, uint32_t string_max);
void shape_free(struct shape *shape);

/* A value of a type; a struct becomes its members. */
void shape_add(struct shape *shape, const char *name, const struct type *type,
	       const struct value_place *place);
/* A plain number. */
void shape_add_number(struct shape *shape, const char *name, enum field_type type, uint8_t size,
		      const struct value_place *place);
/* A string that ends at a NUL, from the pointer at a place. */
void shape_add_string(struct shape *shape, const char *name, const struct value_place *pointer);
/* Something that the agent knows: DT_OP_BACKTRACE, DT_OP_COMM. */
void shape_add_special(struct shape *shape, const char *name, enum dt_op_code code, uint16_t count);

/* Can the trampoline store it all? `scratch` is lost. */
bool shape_is_plain(struct shape *shape, struct tramp_event *scratch);

/*
 * Lays out the event: its size, the trampoline's fields or the agent's program (*ret_program, owned
 * by the caller; NULL for a plain event). The program's id and rip are for the caller to fill in.
 */
struct error *shape_finish(struct shape *shape, struct tramp_event *event,
			   struct dt_program **ret_program, size_t *ret_program_size);

#endif
