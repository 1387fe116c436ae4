/*
 * detach.h - leave the target as it was found.
 */
#ifndef DYNTRACE_DETACH_H
#define DYNTRACE_DETACH_H

#include "control/session/state/session_state.h"

/* Restores text and unmaps everything in the target and its children. */
struct error *detach_all(struct session *session, struct session_summary *summary);

#endif
