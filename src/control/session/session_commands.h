/*
 * session_commands.h - changes of tracepoints while the session records.
 */
#ifndef DYNTRACE_SESSION_COMMANDS_H
#define DYNTRACE_SESSION_COMMANDS_H

#include "control/session/state/session_state.h"

void session_notify(const struct session *session, enum session_notice notice, const char *text);
/* Places the list's tracepoints, or leaves no site of them behind. */
struct error *commands_place(struct session *session, struct tracepoint_list *list);
/* Takes the old one's place in the list, its name and its counts. */
void commands_replace(struct session *session, struct tracepoint *old, struct tracepoint *heir);
/* Out of the session; freed when nothing records under their ids any more. */
void commands_retire(struct session *session, const struct tracepoint_list *list);

#endif
