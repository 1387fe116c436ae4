/*
 * semaphores.h - the counters that guard markers.
 */
#ifndef DYNTRACE_SEMAPHORES_H
#define DYNTRACE_SEMAPHORES_H

#include "control/session/state/session_state.h"

/*
 * A marker with a semaphore is passed only while that counter isn't 0. It is raised when the
 * tracepoint is in place, and lowered before it goes. What was raised is written down in the
 * control page, for who takes over. Both may be called for any tracepoint, at any time: they do
 * what is missing.
 */
struct error *semaphores_raise(struct session *session, struct tracepoint *tracepoint);
/* Also in a forked child. */
void semaphores_raise_child(struct proc *child, const struct tracepoint *tracepoint);
void semaphores_lower(struct session *session, struct tracepoint *tracepoint);
/* All that is raised in the target; in a forked child: all that may have been when it was forked. */
void semaphores_lower_all(struct session *session, struct proc *proc);
/* The tracepoint's module is gone, with its counter. */
void semaphores_forget(struct session *session, struct tracepoint *tracepoint);

#endif
