/*
 * trace_layout.h - what a trace's metadata says: its clock, its environment, and where each field
 * of its events lies.
 *
 * Made from hostile text, and checked so that events can be read by it without further questions:
 *
 * (Z1) A type's `least` is the size of its smallest event, and at most LAYOUT_EVENT_MAX.
 * (Z2) The elements of an array have a size: going through an event takes as long as its bytes are
 *      many.
 *
 * Bytes of an event are as hostile as the text: layout_measure checks them once, and only measured
 * events are given to the functions below it.
 */
#ifndef DYNTRACE_TRACE_LAYOUT_H
#define DYNTRACE_TRACE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"
#include "control/base/vec.h"

#define LAYOUT_EVENT_MAX 65536u
#define LAYOUT_TEXT_MAX (512u << 20)

enum layout_kind {
	LAYOUT_UNSIGNED,
	LAYOUT_SIGNED,
	LAYOUT_HEX, /* unsigned, shown in base 16 */
	LAYOUT_FLOAT,
	LAYOUT_ENUM,
	LAYOUT_STRING,
	LAYOUT_STRUCT,
};

enum layout_array { LAYOUT_ONE, LAYOUT_FIXED, LAYOUT_COUNTED /* by the field before it */ };

/* Fields that a reader treats in their own way. */
enum layout_role {
	LAYOUT_PLAIN,
	LAYOUT_SILENT, /* tells nothing: the length of the next array, a gap */
	LAYOUT_UNREADABLE, /* names of fields that couldn't be read; mostly empty */
	LAYOUT_BACKTRACE, /* addresses of code */
};

struct layout_label {
	int64_t value;
	char *name;
};

struct layout_fields {
	struct layout_field *items;
	size_t count, room;
};

struct layout_field {
	char *name; /* as readers show it */
	enum layout_kind kind;
	enum layout_array array;
	enum layout_role role;
	bool is_signed; /* numbers and enumerations */
	uint8_t size; /* bytes of a number */
	uint8_t align; /* bytes */
	uint32_t count; /* LAYOUT_FIXED */
	VEC(struct layout_label) labels;
	struct layout_fields members;
};

/* The part of a call that an event is: NAME_entry, or NAME_exit with a duration. */
enum layout_part { LAYOUT_BARE, LAYOUT_ENTRY, LAYOUT_EXIT };

/* Of an entry with exits: what became of calls without an exit event, as the recorder saw it.
 * Known only of functions of which returns were missed. */
struct layout_fates {
	uint64_t missed, unwound, inside, exits;
};

/* Of a tracepoint's only or entry event: hits without an event, while --overhead had demoted it. */
struct layout_demoted {
	uint64_t counted; /* hits */
	uint64_t off_ns; /* time in which they weren't counted */
};

struct layout_event {
	char *name;
	uint32_t id;
	struct layout_fields fields;
	enum layout_part part;
	size_t stem; /* length of the function's name in `name` */
	uint32_t least; /* bytes with the header; of each event, if it is_fixed */
	bool is_fixed;
	struct layout_fates fates;
	struct layout_demoted demoted;
	void *own; /* the reader's; NULL at first */
};

struct layout_variable {
	char *name, *text; /* text NULL: a number */
};

struct trace_layout {
	uint8_t uuid[16];
	uint64_t frequency, offset;
	int64_t offset_s, base_ns;
	VEC(struct layout_variable) environment;
	VEC(struct layout_event *) events; /* by id; NULL: none */
};

/* Understands the text of metadata.c, and fails for any other, without a word for the user: the
 * error says where. */
struct error *trace_layout_parse(const char *text, size_t length, struct trace_layout *ret_layout);
void trace_layout_free(struct trace_layout *layout);

/* The text of a variable of the environment; NULL: none. */
const char *trace_layout_variable(const struct trace_layout *layout, const char *name);
/* Wall-clock time, rounded as libbabeltrace2 does. */
int64_t trace_layout_ns(const struct trace_layout *layout, uint64_t cycles);
/* Length of a time. */
uint64_t trace_layout_duration(const struct trace_layout *layout, uint64_t cycles);
/* Computes all else of a type whose name and fields are there; false: too large (Z1, Z2). */
bool trace_layout_settle(struct layout_event *event);

/* Is `exit` the exit of the function with that entry? */
bool layout_is_exit_of(const struct layout_event *entry, const struct layout_event *exit);
/* The exits of an entry's function, which have the next id; NULL: they aren't recorded. */
const struct layout_event *layout_exit_of(const struct trace_layout *layout,
					  const struct layout_event *entry);

/* May calls be over though their exits aren't in the trace, and nothing was lost? */
bool layout_ends_unseen(const struct layout_fates *fates);
/* Is that true of all of its calls? */
bool layout_never_exits(const struct layout_fates *fates);
/* The fate of a call without an exit. `is_end`: it was open at the end of the trace. */
enum layout_fate { FATE_UNWOUND, FATE_INSIDE, FATE_MISSED, FATE_UNKNOWN };
enum layout_fate layout_fate(const struct layout_fates *fates, bool is_end);

/* Bytes of header and fields; 0: they don't fit into `size` bytes. */
size_t layout_measure(const struct layout_event *type, const uint8_t *event, size_t size);

/* A field's place in a measured event. */
struct layout_place {
	const struct layout_field *field;
	const uint8_t *bytes; /* its first element */
	uint32_t count; /* elements */
};

/* Goes through the fields of an event or structure, in order. */
struct layout_walk {
	const struct layout_fields *fields;
	const uint8_t *event;
	size_t index, at;
	uint32_t last; /* the number before, which counts an array */
};

struct layout_walk layout_walk_event(const struct layout_event *type, const uint8_t *event);
/* The members of an element. `event` is the event's first byte, from which alignment counts. */
struct layout_walk layout_walk_members(const struct layout_field *field, const uint8_t *event,
				       const uint8_t *element);
bool layout_walk_next(struct layout_walk *walk, struct layout_place *ret_place);
/* The place after an element. */
const uint8_t *layout_skip(const struct layout_field *field, const uint8_t *event,
			   const uint8_t *element);

/* A number; 0 for other kinds. Signed ones are extended to 64 bits, floats are their bits. */
uint64_t layout_number(const struct layout_field *field, const uint8_t *element);
/* An enumeration's first label for the number; NULL: none. */
const char *layout_label(const struct layout_field *field, uint64_t number);
/* Finds a field by its name. */
bool layout_find(const struct layout_event *type, const uint8_t *event, const char *name,
		 struct layout_place *ret_place);

#endif
