/*
 * exec_events.h - programs that are begun, while tracepoints wait for some.
 */
#ifndef DYNTRACE_EXEC_EVENTS_H
#define DYNTRACE_EXEC_EVENTS_H

struct supervisor;

/* Begins to look, or ends it, by the number of tracepoints that wait. */
void exec_events_update(struct supervisor *supervisor);
/* The loop is closed already: it has a timer of ours. */
void exec_events_free(struct supervisor *supervisor);

#endif
