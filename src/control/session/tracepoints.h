/*
 * tracepoints.h - tracepoints from places, and their names.
 */
#ifndef DYNTRACE_TRACEPOINTS_H
#define DYNTRACE_TRACEPOINTS_H

#include "control/session/state/session_state.h"

/* A tracepoint for each of the request's places, behind those in the list; a placeholder if it has
 * none. */
struct error *tracepoints_make(struct session *session, struct request *request,
			       struct tracepoint_list *list);
/* One, at the place; NULL: it waits for one. */
struct error *tracepoints_make_one(struct session *session, struct request *request,
				   const struct place *place, const char *name,
				   struct tracepoint_list *list);
/* Another one of the same name and contexts, at the place (NULL: it waits), not in the tree of
 * names and not described. */
struct error *tracepoints_copy(struct session *session, const struct tracepoint *tracepoint,
			       const struct place *place, struct tracepoint **ret_copy);
void tracepoints_free_one(struct session *session, struct tracepoint *tracepoint);
void tracepoints_free(struct session *session);
bool tracepoints_claim_name(struct session *session, struct tracepoint *tracepoint);
void tracepoints_drop_name(struct session *session, struct tracepoint *tracepoint);

bool tracepoints_create(struct session *session);
void tracepoints_destroy(struct session *session);

#endif
