/*
 * thread_liveness.h - do threads that have recorded still live?
 */
#ifndef DYNTRACE_THREAD_LIVENESS_H
#define DYNTRACE_THREAD_LIVENESS_H

#include "control/session/state/session_state.h"

bool thread_liveness_ask(void *context, uint32_t pid, uint32_t tid);
/* What they are called here; 0: it ended before that could be looked up. */
void thread_liveness_outer(void *context, uint32_t *pid, uint32_t *tid);

#endif
