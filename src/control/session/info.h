/*
 * info.h - counts and descriptions of tracepoints for the user.
 */
#ifndef DYNTRACE_INFO_H
#define DYNTRACE_INFO_H

#include "control/session/state/session_state.h"

/* Continues the old tracepoint's counts in its heir. Events under the old id count, too, until the
 * next info_fold or info_inherit. All events from before the inheritance before this one must have
 * been read. */
void info_inherit(struct session *session, struct tracepoint *old, struct tracepoint *heir);
/* Reads all events under former ids, before other tracepoints get these ids. */
void info_fold(struct session *session);
/* Excludes everything that was counted under the tracepoint's id before. */
void info_start(struct session *session, struct tracepoint *tracepoint);

/* Begins the time over which rates are computed, for tracepoints that were placed; ends it. */
void info_placed(const struct tracepoint_list *list);
/* Begins it anew, for all that are placed. */
void info_begin(struct session *session);
void info_ended(struct session *session);
/* Gives the types, for the metadata, what became of calls without an exit. */
void info_note_fates(struct session *session);
/* Notes hits without an event in the event types, likewise. */
void info_note_demoted(struct session *session);

#endif
