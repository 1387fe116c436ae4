/*
 * shared_trace.h - one `dyntrace trace`'s own events, out of a trace that has those of two.
 *
 * Events are told apart by the names of their tracepoints, which no other tracepoint had meanwhile,
 * and by the clock.
 */
#ifndef DYNTRACE_SHARED_TRACE_H
#define DYNTRACE_SHARED_TRACE_H

#include "control/session/state/tracepoint.h"

struct shared_trace {
	const struct name_list *others; /* sorted: events of these tracepoints are left out */
	uint64_t until; /* a clock; 0: all that is there */
	uint64_t lost; /* losses of ours */
	uint64_t events, bytes; /* that were copied */
};

void shared_trace_sort_names(struct name_list *names);
bool shared_trace_has_name(const struct name_list *sorted, const char *name);

/* Makes the trace `to`, with our events of `from`. */
struct error *shared_trace_copy(struct shared_trace *shared, const char *from, const char *to);
/* Removes a trace that nobody records in any more. */
void shared_trace_remove(const char *path);
/* Leaves only our events in the trace at `path`, which is complete. */
struct error *shared_trace_clean(struct shared_trace *shared, const char *path);

#endif
