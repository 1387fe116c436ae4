/*
 * log_tracer.h - tracepoints of the tracer log: a line of text per hit.
 */
#ifndef DYNTRACE_LOG_TRACER_H
#define DYNTRACE_LOG_TRACER_H

#include "control/session/state/session_state.h"

bool log_tracer_create(struct session *session);
void log_tracer_free(struct session *session);

/* Opens the file of the tracepoint's lines: *ret_log is for event_type.log. Does nothing for other
 * tracers. */
struct error *log_tracer_open(struct session *session, const struct tracepoint *tracepoint,
			      uint16_t *ret_log);
/* Makes lines of the batch's events whose types have a log. */
void log_tracer_observe(struct session *session, const struct reader_batch *batch);
/* Writes the lines up to the clock `until`, once all events up to there have been read. */
void log_tracer_flush(struct session *session, uint64_t until, bool all);
/* Do lines wait for room in their file? */
bool log_tracer_waits(const struct session *session);
/* Prints every event of the session as a line to the descriptor, which it takes over. */
struct error *log_tracer_print(struct session *session, int fd);
/* Has log_tracer_print been called? */
bool log_tracer_prints(const struct session *session);
/* Number of lines that weren't printed. *ret_closed: nobody reads them any more. */
uint64_t log_tracer_unprinted(const struct session *session, bool *ret_closed);
/* Number of lines left out. *ret_failed: errno of a file that can't be written; 0: none. */
uint64_t log_tracer_left_out(const struct session *session, int *ret_failed);

#endif
