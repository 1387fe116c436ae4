/*
 * thread_liveness.h - are threads that have recorded still alive? Callbacks of the reader.
 */
#ifndef DYNTRACE_THREAD_LIVENESS_H
#define DYNTRACE_THREAD_LIVENESS_H

#include "control/session/state/session_state.h"

bool thread_liveness_ask(void *context, uint32_t pid, uint32_t tid);
/* Translates ids to our pid namespace; 0: the thread ended before its id could be looked up. */
void thread_liveness_outer(void *context, uint32_t *pid, uint32_t *tid);

#endif
