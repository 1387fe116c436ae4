/*
 * site_notes.h - note placed sites in the control page, for the next controller if this one is
 * killed.
 *
 * A site is noted before its bytes are written, and until the original ones are back. The agent
 * must be in the target.
 */
#ifndef DYNTRACE_SITE_NOTES_H
#define DYNTRACE_SITE_NOTES_H

#include "control/session/state/session_state.h"

bool site_notes_create(struct session *session);
void site_notes_free(struct session *session);

/* Notes a site that is planned, again if it was noted. Fails if there are too many. */
struct error *site_notes_add(struct session *session, struct site *site);
/* Takes the note away, if there is one. */
void site_notes_remove(struct session *session, struct site *site);

#endif
