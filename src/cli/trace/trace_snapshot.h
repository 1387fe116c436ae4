/*
 * trace_snapshot.h - snapshots of `dyntrace trace --mode overwrite`: by SIGUSR1, by a hit
 * (--snapshot-when), and the trace that is left when the target is killed.
 * How hits ask: control/session/triggers/triggers.h.
 */
#ifndef DYNTRACE_TRACE_SNAPSHOT_H
#define DYNTRACE_TRACE_SNAPSHOT_H

#include "trace_begin.h"

/* Checks the options: which need others, which exclude others; sets the mode. */
struct error *trace_snapshot_check(void);
/* Adds the trigger of a tracepoint, if --snapshot-when is given. */
struct error *trace_snapshot_add(struct session *session, const struct tracepoint_spec *spec);
/* SIGUSR1. */
void trace_snapshot_want(void);
/* Takes the snapshots that were asked for; between two steps of the session. */
struct error *trace_snapshot_step(struct trace_run *run);
/* The target has ended. */
void trace_snapshot_ended(struct trace_run *run);
/* The trace is complete: tells the triggers without a snapshot, and of a target that was killed. */
void trace_snapshot_end(struct trace_run *run);

#endif
