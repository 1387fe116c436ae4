/*
 * trace_merge.h - all events of some traces in the order of time.
 *
 * Events of the same nanosecond come in the order that libbabeltrace2 gives them: by the trace's
 * UUID, then by the file's name. Memory: one window per file.
 */
#ifndef DYNTRACE_TRACE_MERGE_H
#define DYNTRACE_TRACE_MERGE_H

#include "trace_input.h"

/* A file and what it gives next. */
struct trace_stream {
	const struct trace_input *input;
	size_t file;
	struct packet_cursor cursor;
	enum cursor_item item;
	int64_t ns; /* of the event, or of the loss's begin */
	void *own; /* the user's; freed with free */
};

struct trace_merge {
	VEC(struct trace_stream *) streams; /* a heap: the first one is next */
	bool is_begun;
};

/* The inputs stay the caller's, and have different UUIDs. */
struct error *trace_merge_begin(struct trace_merge *merge, struct trace_input *const *inputs,
				size_t count);
void trace_merge_free(struct trace_merge *merge);
/* Gives the stream whose `item` is next: an event, a loss or damage; NULL: the end. */
struct trace_stream *trace_merge_next(struct trace_merge *merge);

#endif
