/*
 * trace_copy.h - a trace with some events of another trace of our own.
 *
 * For a command whose tracepoints a daemon records among others' into one trace. Times, fields and
 * environment are those of the original; types of other events aren't in the copy's metadata.
 */
#ifndef DYNTRACE_TRACE_COPY_H
#define DYNTRACE_TRACE_COPY_H

#include "trace_layout.h"

struct trace_copy {
	const char *from, *to; /* directories; `to` must not exist */
	uint64_t since, until; /* clocks */
	/* Where events of the type are counted; NULL: they aren't copied. */
	uint64_t *(*wants)(void *context, const struct layout_event *type);
	/* How many bytes at the end of the type's stem its name in the copy doesn't have: "-2".
	 * They are digits and hyphens. */
	size_t (*drops)(void *context, const struct layout_event *type);
	void *context;
	uint64_t lost; /* losses that the copy reports: those of the original are of all events */
	uint64_t events, bytes; /* that were copied */
};

/* On failure the copy has what could be read. */
struct error *trace_copy(struct trace_copy *copy);

#endif
