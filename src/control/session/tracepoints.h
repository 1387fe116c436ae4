/*
 * tracepoints.h - make tracepoints from places, name them, free them.
 */
#ifndef DYNTRACE_TRACEPOINTS_H
#define DYNTRACE_TRACEPOINTS_H

#include "control/session/state/session_state.h"

/* Appends one tracepoint per place of the request to the list; without places, a placeholder that
 * waits. `names`: NULL, or the names for them. */
struct error *tracepoints_make(struct session *session, struct request *request,
			       const struct name_list *names, struct tracepoint_list *list);
/* Appends one tracepoint at the place; NULL: it waits for its place. */
struct error *tracepoints_make_one(struct session *session, struct request *request,
				   const struct place *place, const char *name,
				   struct tracepoint_list *list);
/* Copies name and contexts to a new tracepoint at the place (NULL: it waits). The copy isn't in the
 * tree of names yet, and not described. */
struct error *tracepoints_copy(struct session *session, const struct tracepoint *tracepoint,
			       const struct place *place, struct tracepoint **ret_copy);
void tracepoints_free_one(struct session *session, struct tracepoint *tracepoint);
void tracepoints_free(struct session *session);
/* A tracepoint's name belongs to it from claim to drop. claim: false if out of memory. */
bool tracepoints_claim_name(struct session *session, struct tracepoint *tracepoint);
void tracepoints_drop_name(struct session *session, struct tracepoint *tracepoint);

bool tracepoints_create(struct session *session);
void tracepoints_destroy(struct session *session);

#endif
