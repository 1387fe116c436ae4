/*
 * worker_events.h - notifications about a target.
 */
#ifndef DYNTRACE_WORKER_EVENTS_H
#define DYNTRACE_WORKER_EVENTS_H

#include "worker.h"

uint64_t worker_events_wall_ns(void);
/* Without a supervisor, events are kept for the next one, as long as there is room. */
void worker_events_tell(struct worker *worker, const char *event, const char *detail);
/* The same, with the directory of a trace; NULL: none. */
void worker_events_tell_trace(struct worker *worker, const char *event, const char *detail,
			      const char *trace);
/* session_options.notify; the context is the worker. */
void worker_events_notice(void *context, enum session_notice notice, const char *text);
/* Announces the losses since the last time; at most once per second. */
void worker_events_tell_losses(struct worker *worker);
/* The same at the session's end, at once: a disk that fails takes no note of them. */
void worker_events_tell_last_losses(struct worker *worker);
/* Announces the lines of logs that were left out since the last time. */
void worker_events_tell_lines(struct worker *worker, uint64_t left_out, const char *why);
void worker_events_describe_lines(uint64_t count, const char *why, char *ret_text,
				  size_t size);

#endif
