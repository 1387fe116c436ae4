/*
 * trace_snapshot.h - snapshots of `dyntrace trace --mode overwrite`: by SIGUSR1, by a hit
 * (--snapshot-when), and the trace that is left when the target is killed.
 *
 * A hit asks by counting: each tracepoint has a second one at the same place, its trigger, with the
 * tracer count and the expression as its filter. So asking costs the target one counter, however
 * often it asks, and no system call. run->session's owner looks at these counters every few
 * milliseconds.
 *
 * (O11) Between two snapshots that hits ask for, at least --snapshot-every passes. Triggers in
 *       between are counted, and told with the next snapshot or at the end.
 */
#ifndef DYNTRACE_TRACE_SNAPSHOT_H
#define DYNTRACE_TRACE_SNAPSHOT_H

#include "trace_begin.h"

#define TRACE_SNAPSHOT_EVERY 10.0 /* s */
#define TRACE_SNAPSHOT_STEP_MS 5 /* between looks at the triggers */

/* Checks the options: which need others, which exclude others; sets the mode. */
struct error *trace_snapshot_check(void);
/* Adds the trigger of a tracepoint, if --snapshot-when is given. */
struct error *trace_snapshot_add(struct session *session, const struct tracepoint_spec *spec);
/* Is the tracepoint a trigger, which the user hasn't asked for? */
bool trace_snapshot_is_trigger(const struct tracepoint_info *info);
/* SIGUSR1. */
void trace_snapshot_want(void);
/* Takes the snapshots that were asked for; between two steps of the session. */
struct error *trace_snapshot_step(struct trace_run *run);
/* The trace is complete: tells the triggers without a snapshot, and of a target that was killed. */
void trace_snapshot_end(struct trace_run *run);

#endif
