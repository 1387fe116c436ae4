/*
 * types.h - event types and ids of tracepoints.
 */
#ifndef DYNTRACE_TYPES_H
#define DYNTRACE_TYPES_H

#include "control/session/state/session_state.h"

/* Gives event types and ids to each tracepoint of the list that has a site. */
struct error *types_assign(struct session *session, const struct tracepoint_list *list);
/* Adds a type of the controller's own. Takes it. */
struct error *types_add(struct session *session, struct event_type *type);
/* Takes the tracepoint's id back: nothing records under it any more. */
void types_give_back(struct session *session, const struct tracepoint *tracepoint);

#endif
