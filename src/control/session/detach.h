/*
 * detach.h - leave the target as it was found: without our code, with its own bytes.
 */
#ifndef DYNTRACE_DETACH_H
#define DYNTRACE_DETACH_H

#include "control/session/state/session_state.h"

/* Restores the text and unmaps everything, in the target and its children. Where that isn't
 * possible, the summary says why. */
struct error *detach_all(struct session *session, struct session_summary *summary);

#endif
