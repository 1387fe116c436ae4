/*
 * session_commands.h - change tracepoints while the session records.
 */
#ifndef DYNTRACE_SESSION_COMMANDS_H
#define DYNTRACE_SESSION_COMMANDS_H

#include "control/session/state/session_state.h"

/* Finds tracepoints by name, else by glob, in the order of session->tracepoints. Caller frees the
 * list. */
struct error *commands_find(const struct session *session, const char *pattern,
			    struct tracepoint_list *ret_list);
/* Places all tracepoints of the list, or leaves none of their sites behind. */
struct error *commands_place(struct session *session, struct tracepoint_list *list);
/* Gives the old tracepoint's place in the list, its name and its counts to the heir. */
void commands_replace(struct session *session, struct tracepoint *old, struct tracepoint *heir);
/* Retires tracepoints that are out of the list: they are freed when nothing records under their ids
 * any more. */
void commands_retire(struct session *session, const struct tracepoint_list *list);

#endif
