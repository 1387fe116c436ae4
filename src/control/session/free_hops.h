/*
 * free_hops.h - places of hops that were removed, for new ones.
 */
#ifndef DYNTRACE_FREE_HOPS_H
#define DYNTRACE_FREE_HOPS_H

#include "control/session/state/session_state.h"

/* Before trampolines are written: a removed hop may have the only place that a new hop can be at. */
void free_hops_clear(struct session *session);

#endif
