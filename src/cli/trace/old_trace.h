/*
 * old_trace.h - a trace that is where `-o DIR` wants a new one: it becomes DIR.old, as with perf.
 *
 * Removes the trace that was DIR.old before, and nothing that is no trace.
 */
#ifndef DYNTRACE_OLD_TRACE_H
#define DYNTRACE_OLD_TRACE_H

#include <stdbool.h>

#include "control/base/error.h"

/* Is it a directory with a complete trace of dyntrace's, and with nothing else? One that is being
 * written, or whose dyntrace was killed, has one file more. */
bool old_trace_is_one(const char *directory);
/* Fails if DIR.old is something else than a trace. Changes nothing. */
struct error *old_trace_check(const char *directory);
/* Removes a complete trace. */
void old_trace_remove(const char *directory);
/* Moves it. What can't be moved stays, and making the new trace fails. */
void old_trace_move(const char *directory);

#endif
