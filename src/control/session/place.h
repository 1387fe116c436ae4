/*
 * place.h - put probes into the target, and with the first of them the agent.
 */
#ifndef DYNTRACE_PLACE_H
#define DYNTRACE_PLACE_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

bool place_create(struct session *session);
void place_free(struct session *session);
/*
 * Puts the tracepoints into the target, and with the first of them the agent. `held` as in
 * session_begin. On failure the list's tracepoints may have sites: call detach_all or
 * change_release.
 */
struct error *place_list(struct session *session, const struct tracepoint_list *list,
			 struct stop *held);

#endif
