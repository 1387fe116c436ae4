/*
 * sync_tracer.h - tracepoints of the tracer log with --sync: the hit's own thread writes a line of
 * text to the program's standard output (shared/hit_line.h).
 *
 * No library is loaded: the agent makes and writes the line.
 */
#ifndef DYNTRACE_SYNC_TRACER_H
#define DYNTRACE_SYNC_TRACER_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

bool sync_tracer_create(struct session *session);
void sync_tracer_free(struct session *session);
void sync_tracer_free_use(struct session *session, struct tracepoint *tracepoint);

/* Describes the list's lines, once types are assigned: trampolines need their sizes. Fails where no
 * line can be written. */
struct error *sync_tracer_reckon(struct session *session, const struct tracepoint_list *list);
/* Maps the gate and the counts, by way of a held thread. */
struct error *sync_tracer_map(struct session *session, struct stop *stop);
/* Gives trampolines their calls. */
struct error *sync_tracer_prepare(struct session *session, const struct tracepoint_list *list);
/* Lets the list's hits write lines, or not. */
void sync_tracer_enable(struct session *session, const struct tracepoint_list *list, bool enable);
/* Call regularly: takes over how many lines were left out (event_type.left_out). */
void sync_tracer_look(struct session *session);
/* Lines left out so far, and the most frequent reason. */
uint64_t sync_tracer_left_out(const struct session *session, const char **ret_why);

#endif
