/*
 * free_hops.h - give the places of removed hops (placement/tactic.h) to new ones.
 */
#ifndef DYNTRACE_FREE_HOPS_H
#define DYNTRACE_FREE_HOPS_H

#include "control/session/state/session_state.h"

/* Before trampolines are written: a removed hop may have the only place that fits a new hop. Waits
 * at most GARBAGE_WAIT_MS for it. */
void free_hops_clear(struct session *session);

#endif
