/*
 * event.h - what an event looks like: the one description that trampolines are generated from, that
 * sizes are checked against, and that the trace's metadata is written from.
 */
#ifndef DYNTRACE_RECORD_EVENT_H
#define DYNTRACE_RECORD_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_type {
	FIELD_UINT, /* size 1, 2, 4, 8; naturally aligned */
	FIELD_INT,
	FIELD_HEX, /* unsigned, shown in base 16 */
};

struct event_field {
	char name[64]; /* a CTF identifier */
	enum field_type type;
	uint8_t size;
	uint16_t offset; /* in the event, from its header's first byte (so 8 or more) */
};

struct event_type {
	uint32_t id;
	char *name; /* as the user sees it; the metadata quotes it */
	uint32_t size; /* header included, a multiple of 8 */
	struct event_field *fields;
	size_t field_count;
	uint64_t address; /* of the probe, for the metadata's comment */
	/* Kept by the reader: */
	uint64_t hits; /* events read */
	uint64_t lost;
};

struct event_types {
	struct event_type *items; /* index = id */
	size_t count;
	size_t room;
};

void event_types_free(struct event_types *types);

#endif
