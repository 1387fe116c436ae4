/*
 * place.h - put probes into the target, and with the first of them the agent.
 */
#ifndef DYNTRACE_PLACE_H
#define DYNTRACE_PLACE_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

bool place_create(struct session *session);
void place_free(struct session *session);
/* A trace of this session's target; `directory` NULL: made here, at `output`. */
struct error *place_open_writer(struct session *session, struct trace_dir *directory,
				const char *output, struct event_types *types,
				struct trace_writer **ret_writer);
/*
 * Puts the tracepoints into the target, and with the first of them the agent. `held` as in
 * session_begin. On failure the list's tracepoints may have sites: detach_all or change_forget.
 */
struct error *place_list(struct session *session, const struct tracepoint_list *list,
			 struct stop *held);
/* Writes a site down for the next controller, and away. */
struct error *place_note(struct session *session, struct site *site);
void place_unnote(struct session *session, struct site *site);

#endif
