/*
 * semaphores.h - raise and lower the counters that guard markers.
 */
#ifndef DYNTRACE_SEMAPHORES_H
#define DYNTRACE_SEMAPHORES_H

#include "control/session/state/session_state.h"

/*
 * A program passes a marker with a semaphore only while that counter isn't 0. It is raised after
 * the tracepoint is placed, and lowered before it is removed. The control page says by how much,
 * for the next controller. Raise and lower may be called for any tracepoint at any time: a second
 * call has no effect.
 */
struct error *semaphores_raise(struct session *session, struct tracepoint *tracepoint);
/* Raises the counter in a forked child. */
void semaphores_raise_child(struct proc *child, const struct tracepoint *tracepoint);
void semaphores_lower(struct session *session, struct tracepoint *tracepoint);
/* Lowers every counter that is raised in the target, or in a forked child (M2). */
void semaphores_lower_all(struct session *session, struct proc *proc);
/* Forgets the counter of a tracepoint whose module is gone. */
void semaphores_forget(struct session *session, struct tracepoint *tracepoint);

#endif
