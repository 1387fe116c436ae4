/*
 * line.h - events as lines of text.
 */
#ifndef DYNTRACE_LINE_H
#define DYNTRACE_LINE_H

#include <time.h>

#include "control/base/strbuf.h"
#include "control/ctf/clock.h"
#include "control/record/reader.h"

struct line_event {
	const struct event_type *type;
	const uint64_t *words; /* as in the trace */
	size_t count; /* of words */
	uint64_t clock; /* all 64 bits */
	uint32_t tid;
};

/* Start with all zeroes, except `process`. */
struct line_style {
	const char *process; /* its name; borrowed */
	time_t second; /* whose text is in `clock` */
	char clock[16];
};

/* Appends the event's line, with its newline. */
void line_add(struct strbuf *text, struct line_style *style, const struct clock_estimate *estimate,
	      const struct line_event *event);

/* Calls `found` for each event of a batch, in order. */
void line_each(const struct reader_batch *batch, const struct event_types *types,
	       void (*found)(void *context, const struct line_event *event), void *context);

#endif
