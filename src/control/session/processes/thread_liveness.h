/*
 * thread_liveness.h - are threads that have recorded still alive? Callbacks of the reader.
 */
#ifndef DYNTRACE_THREAD_LIVENESS_H
#define DYNTRACE_THREAD_LIVENESS_H

#include "control/record/reader.h"
#include "control/session/state/session_state.h"

bool thread_liveness_ask(void *context, const struct reader_thread *thread);
/* Finds the ids in our pid namespace; 0: the thread ended before its id could be looked up. */
void thread_liveness_outer(void *context, struct reader_thread *thread);
/* Changes the ids of a thread in the pid namespace of `like` to those in ours. False: it isn't
 * found. */
bool thread_liveness_find(struct session *session, pid_t like, uint32_t *pid, uint32_t *tid);
bool thread_liveness_create(struct session *session);
void thread_liveness_free(struct session *session);

#endif
