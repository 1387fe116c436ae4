/*
 * recording.h - bring events from the target's buffers to the trace.
 */
#ifndef DYNTRACE_RECORDING_H
#define DYNTRACE_RECORDING_H

#include "control/session/state/session_state.h"

bool recording_create(struct session *session);
void recording_free(struct session *session);
/* Makes the trace's files, with the first tracepoint of the list that has a site and events. */
struct error *recording_open_trace(struct session *session, const struct tracepoint_list *list);
/* Writes new event types to the metadata, before the first packet that has them. */
struct error *recording_announce(struct session *session);
/* Creates the reader of the target's buffers. */
struct error *recording_open(struct session *session);
/* Sleeps until the target has something for us, at most timeout_ms. */
void recording_wait(struct session *session, unsigned timeout_ms);
/* Reads what the buffers hold and is due. */
struct error *recording_step(struct session *session);
/* While detaching: makes room for threads that wait for it (B8). */
void recording_make_room(struct session *session);
/* Reads everything that is left, and completes the trace. */
struct error *recording_finish(struct session *session, struct session_summary *summary);

#endif
