/*
 * marker_fields.h - static markers as tracepoints: their arguments, their semaphores. Private to
 * session/.
 */
#ifndef DYNTRACE_MARKER_FIELDS_H
#define DYNTRACE_MARKER_FIELDS_H

#include "control/proc/proc.h"
#include "control/dwarf/debug.h"
#include "describe.h"

/* Arguments become fields: arg0, arg1... */
void marker_fields_add(struct describe *d);
/* One of them by its name; false: it isn't one. */
bool marker_fields_find(struct describe *d, const char *name, struct type *ret_type,
		  struct value_place *ret_place);

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
