/*
 * event.h - the type of an event: the one description that trampolines are generated from, sizes
 * are checked against, and the trace's metadata is written from.
 */
#ifndef DYNTRACE_EVENT_H
#define DYNTRACE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum field_type {
	FIELD_UINT, /* size 1, 2, 4, 8; naturally aligned */
	FIELD_INT,
	FIELD_HEX, /* unsigned, shown in base 16 */
	FIELD_FLOAT, /* size 4, 8 */
	FIELD_ENUM, /* a number with names */
	FIELD_STRING, /* ends with a NUL; only in events of variable size */
	FIELD_FRAMES, /* addresses, with their count as u32 before them; likewise */
	/* begins a list, of any number of elements with their count as u32 before them: one number,
	 * string or struct, up to the FIELD_END; `size` is the alignment of elements; likewise */
	FIELD_LIST,
	FIELD_STRUCT, /* begins a struct: members up to the FIELD_END of the same name */
	FIELD_END,
};

/* A name of an enumeration's value. */
struct field_label {
	int64_t value;
	char *name;
};

#define EVENT_NAME_MAX 96

struct event_field {
	char name[64]; /* as the user sees it: event_field_name */
	enum field_type type;
	uint8_t size;
	/* from the first byte of the event's header (so 8 or more); 0: varies */
	uint16_t offset;
	uint16_t count; /* elements of an array; else 0 */
	bool is_signed; /* FIELD_ENUM */
	struct field_label *labels; /* FIELD_ENUM; owned */
	size_t label_count;
};

/* Of an entry with exits: what became of the calls that have no exit event. */
struct event_fates {
	uint64_t missed, unwound, inside; /* as of src/shared/layout.h; known at the end */
};

/* Of a tracepoint's only or entry event: hits without an event, while it was demoted. */
struct event_demoted {
	uint64_t hits; /* that were counted */
	uint64_t off_ns; /* time in which they weren't */
};

struct event_type {
	uint32_t id;
	char *name; /* as the user sees it; the metadata quotes it */
	uint32_t size; /* with the header, a multiple of 8; of variable size: the minimum */
	bool is_variable; /* the word after the header holds the size (src/shared/program.h) */
	/* an exit: in the pool its events are pairs with those of the id before (program.h) */
	bool is_pair;
	bool has_exit; /* an entry: the exit's events have the next id */
	bool encloses; /* an entry: --only-inside */
	struct event_field *fields;
	size_t field_count;
	uint64_t address; /* of the probe, for the metadata's comment */
	uint16_t log; /* number of the session's log with a line per event; 0: none */
	/* The fields' names in a line, by event_type_labels; NULL: not asked for yet; owned */
	char (*labels)[EVENT_NAME_MAX];
	uint64_t left_out; /* lines that the log didn't write */
	struct event_fates fates; /* for the metadata */
	struct event_demoted demoted; /* likewise */
	/* Kept by the reader: */
	uint64_t hits; /* events read */
	uint64_t lost;
	/* of variable size: the first fields, which every event has at the same place, and their
	 * end (event_type_learn); 0: not looked for */
	uint16_t fixed_count, fixed_end;
	bool is_plain; /* and all other fields are strings */
};

struct event_types {
	struct event_type *items; /* index = id */
	size_t count;
	size_t room;
};

void event_types_free(struct event_types *types);
/* The field's name in the trace, for every reader: a CTF identifier without the underscore that
 * stands before it. Other characters become underscores, and a name that a field before it has
 * gets a number. A struct has its name at its end. */
void event_field_name(const struct event_field *fields, size_t index,
		      char ret_name[EVENT_NAME_MAX]);
/* The names of all fields, a struct's also at its beginning. NULL: out of memory. */
const char (*event_type_labels(struct event_type *type))[EVENT_NAME_MAX];
/* Does the field begin a struct or a list? */
bool event_field_opens(const struct event_field *field);
/* The FIELD_END of the struct or list that begins at `begin`, and the other way round. */
size_t event_field_find_end(const struct event_field *fields, size_t count, size_t begin);
size_t event_field_find_begin(const struct event_field *fields, size_t end);
/* Offset after a field's last byte, in an event of fixed size. */
size_t event_field_end(const struct event_field *field);
/* Is it an enumeration of characters, 'a' and so on? */
bool event_field_is_character(const struct event_field *field);
/* The name of a FIELD_ENUM's value; NULL: it has none. */
const char *event_field_label(const struct event_field *field, int64_t value);
/* Bytes that an event takes in the pool; of variable size: the minimum. A pair's type follows its
 * entry's in the array. */
uint32_t event_type_pool_size(const struct event_type *type);
/* Finds the first fields that have the same place in every event, for event_measure to be fast. */
void event_type_learn(struct event_type *type);
/* The offset after the NUL that ends a string at `at`; 0: none. */
size_t event_measure_string(const void *event, size_t at, size_t size);
/* As event_measure, of any type. */
size_t event_measure_fields(const struct event_type *type, const void *event, size_t size);

/* As event_measure_string, for a string that ends within 32 bytes. Looks at whole words, as
 * they were stored a moment ago: a processor waits for stores that it loads at once in other
 * pieces. */
static inline size_t event_measure_short(const void *event, size_t at, size_t size)
{
	const uint64_t ones = 0x0101010101010101, high = ones << 7;
	uint64_t before = (1ULL << at % 8 * 8) - 1; /* bytes of the first word before the string */

	for (size_t from = at / 8 * 8, end = from + 32; from < end && from + 8 <= size; from += 8) {
		uint64_t word;

		memcpy(&word, (const char *)event + from, sizeof(word));
		word |= before;
		before = 0;
		uint64_t zeroes = (word - ones) & ~word & high; /* the first of them is true */
		if (zeroes)
			return from + (unsigned)__builtin_ctzll(zeroes) / 8 + 1;
	}
	return event_measure_string(event, at, size);
}

/* Bytes of header and fields of an event of variable size; 0: more than `size`, or they contradict
 * the type. The bytes are hostile. Inline: the reader measures each event. */
static inline size_t event_measure(const struct event_type *type, const void *event, size_t size)
{
	size_t at = type->fixed_end;

	if (!type->is_plain || at > size)
		return event_measure_fields(type, event, size);
	for (size_t i = type->fixed_count; i < type->field_count && at; i++)
		at = event_measure_short(event, at, size);
	return at;
}
/* Bytes of the entry's part of a pair, rounded up to 8: the exit's fields begin there, less a
 * header. The sizes of both events may vary or not; 0 and hostile bytes as for event_measure. */
size_t event_measure_entry(const struct event_type *exit, const void *event, size_t size);
/* The same, and the bytes of the whole pair in *ret_all. */
size_t event_measure_pair(const struct event_type *exit, const void *event, size_t size,
			  size_t *ret_all);
/* Frees the fields and their labels. */
void event_fields_free(struct event_field *fields, size_t count);

/* Do events of both types look the same in a trace: name, size, fields? */
bool event_type_is_same(const struct event_type *a, const struct event_type *b);

#endif
