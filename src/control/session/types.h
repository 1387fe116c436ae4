/*
 * types.h - event types, and with them ids, for tracepoints.
 */
#ifndef DYNTRACE_TYPES_H
#define DYNTRACE_TYPES_H

#include "control/session/state/session_state.h"

/* Event types, and with them ids, for each tracepoint of the list that has a site. */
struct error *types_assign(struct session *session, const struct tracepoint_list *list);
/* Nothing records under the tracepoint's id any more. */
void types_give_back(struct session *session, const struct tracepoint *tracepoint);

#endif
