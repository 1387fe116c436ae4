/*
 * stable_memory.h - which memory of the target nobody unmaps.
 */
#ifndef DYNTRACE_STABLE_MEMORY_H
#define DYNTRACE_STABLE_MEMORY_H

#include "control/session/state/session_state.h"

/* Tells the agent; it was just mapped. */
void stable_memory_note(struct session *session);

#endif
