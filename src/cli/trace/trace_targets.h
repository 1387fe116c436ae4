/*
 * trace_targets.h - the processes that -p means: pids, all processes of a name, their children.
 */
#ifndef DYNTRACE_TRACE_TARGETS_H
#define DYNTRACE_TRACE_TARGETS_H

#include "control/proc/proc.h"

struct trace_targets {
	struct proc **items; /* owned; an item may be taken */
	size_t count, room;
};

/* Opens the processes, each once, the oldest first. Several of them need the tracer ctf. One that
 * can't be opened is an error if it was named by its pid, or if there is no other; else a note. */
struct error *trace_targets_open(struct trace_targets *ret_targets);
void trace_targets_close(struct trace_targets *targets);

#endif
