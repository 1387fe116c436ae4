/*
 * trace_host.h - a `dyntrace trace` that serves a second one of the same process, its guest.
 *
 * A process has one controller. So the first `trace` places the guest's tracepoints beside its own,
 * and records all events in one trace; the guest copies its own events from there when it ends
 * (trace_beside.h), and the first one leaves the guest's out at its own end. If the first one ends
 * before, it leaves the target to the guest, which takes over without a gap (trace_heir.h), as it
 * does when the first one is killed.
 *
 * One guest at a time. A guest that goes away without a word leaves no tracepoints behind.
 */
#ifndef DYNTRACE_TRACE_HOST_H
#define DYNTRACE_TRACE_HOST_H

#include "trace_begin.h"

struct trace_host;

/* Listens from now on, where that is possible: run->host. Before anything is put into the target:
 * whoever finds us there can reach us. */
void trace_host_begin(struct trace_run *run);
void trace_host_free(struct trace_host *host);
/* Answers what the guest has asked. After each session_step. */
void trace_host_step(struct trace_run *run);

/* Is there a guest that wants to go on? Then trace_host_leave takes the place of session_end. */
bool trace_host_hands_over(const struct trace_run *run);
/* Leaves the target to the guest, completes our own trace, and prints the summary. */
struct error *trace_host_leave(struct trace_run *run);

/* After session_end: waits until the guest has its events, and leaves them out of our trace. Their
 * number is no longer in `totals`. */
struct error *trace_host_finish(struct trace_run *run, struct reader_totals *totals);

#endif
