/*
 * trace_beside.h - `dyntrace trace -p` of a process that a daemon traces already.
 *
 * A process has one controller: the daemon's. So the daemon gets the tracepoints, records their
 * events in its trace of the process, and removes them at the end; then this command copies its own
 * events from there to a trace of its own. Any number of `trace` can do that at once.
 */
#ifndef DYNTRACE_TRACE_BESIDE_H
#define DYNTRACE_TRACE_BESIDE_H

#include "trace_begin.h"

struct error *trace_beside_run(struct trace_run *run);

#endif
