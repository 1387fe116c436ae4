/*
 * stable_memory.h - memory of the target that stays mapped.
 */
#ifndef DYNTRACE_STABLE_MEMORY_H
#define DYNTRACE_STABLE_MEMORY_H

#include "control/session/state/session_state.h"

/* Notes the ranges for the agent, which was just mapped. */
void stable_memory_note(struct session *session);
/* Tells the agent how far Go's heap has grown, if the agent asks. */
void stable_memory_step(struct session *session, uint64_t now);

#endif
