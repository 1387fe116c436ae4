/*
 * event_fields.h - from the bytes of an event, as the agent lays them out, to the values of a line
 * (event_line.h).
 *
 * The bytes are the target's: nothing beyond `end` is read.
 */
#ifndef DYNTRACE_EVENT_FIELDS_H
#define DYNTRACE_EVENT_FIELDS_H

#include "control/event/event.h"
#include "event_line.h"

/* The place of the next field in an event. */
struct event_cursor {
	const uint8_t *event;
	size_t at;
	size_t end;
};

struct event_fields {
	const struct event_field *fields;
	size_t count;
	const char (*names)[EVENT_NAME_MAX]; /* as shown */
};

/* Appends the fields from `from` up to `to`, with their keys. `is_element`: the first one has none,
 * as in a list. */
void event_fields_add(struct event_line *line, const struct event_fields *all, size_t from,
		      size_t to, bool is_element, struct event_cursor *cursor);

#endif
