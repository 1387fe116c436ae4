/*
 * recording.h - events from the target's buffers to the trace.
 */
#ifndef DYNTRACE_RECORDING_H
#define DYNTRACE_RECORDING_H

#include "control/session/state/session_state.h"

bool recording_create(struct session *session);
void recording_free(struct session *session);
struct error *recording_open(struct session *session);
void recording_wait(struct session *session, unsigned timeout_ms);
struct error *recording_step(struct session *session);
/* While the target is being left: threads that wait for room get some. */
void recording_make_room(struct session *session);
struct error *recording_finish(struct session *session, struct session_summary *summary);

#endif
