/*
 * line.h - from events of the pool to lines (control/lines/event_line.h).
 */
#ifndef DYNTRACE_LINE_H
#define DYNTRACE_LINE_H

#include "control/ctf/clock.h"
#include "control/lines/event_line.h"
#include "control/record/reader.h"

struct line_event {
	uint32_t id; /* of its type */
	uint32_t pid, tid;
	const uint64_t *words; /* as in the trace */
	size_t count; /* of words */
	uint64_t clock; /* all 64 bits */
	const char *process; /* its name */
};

/* Appends the event's line, with its newline. */
void line_add(struct event_line *line, struct event_type *type,
	      const struct clock_estimate *estimate, const struct line_event *event);

/* Calls `found` for each event of a batch, in order. */
void line_each(const struct reader_batch *batch, const struct event_types *types,
	       void (*found)(void *context, const struct line_event *event), void *context);

#endif
