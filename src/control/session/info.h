/*
 * info.h - what the user sees of tracepoints.
 */
#ifndef DYNTRACE_INFO_H
#define DYNTRACE_INFO_H

#include "control/session/state/session_state.h"

/* The heir's counts go on from the old one's, which may still grow, until the next info_fold or
 * info_inherit: everything must have been read that was recorded before the one before. */
void info_inherit(struct session *session, struct tracepoint *old, struct tracepoint *heir);
/* Former ids will be others': all that was recorded under them is read now. */
void info_fold(struct session *session);
/* What was counted under its id until now isn't its own. */
void info_start(struct session *session, struct tracepoint *tracepoint);

/* The list is placed: rates count from now. Recording has ended: they count until now. */
void info_placed(const struct tracepoint_list *list);
void info_ended(struct session *session);

#endif
