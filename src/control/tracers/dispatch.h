/*
 * dispatch.h - what a session asks of all tracers: each has a folder of its own, and what it keeps
 * in the target.
 */
#ifndef DYNTRACE_DISPATCH_H
#define DYNTRACE_DISPATCH_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

/* False: out of memory; tracers_free frees what was made. */
bool tracers_create(struct session *session);
void tracers_free(struct session *session);
/* Frees what tracers keep with the tracepoint. */
void tracers_free_use(struct session *session, struct tracepoint *tracepoint);

/* session_tracers_from. */
struct error *tracers_from(struct session *session, taddr *ret_from);

/* Must something be mapped for the list? Then by way of a held thread. */
bool tracers_wants(const struct tracepoint_list *list);
struct error *tracers_map(struct session *session, const struct tracepoint_list *list,
			  struct stop *stop);
/* Everything is mapped: tells each trampoline what to do. `held` as in session_begin. */
struct error *tracers_prepare(struct session *session, const struct tracepoint_list *list,
			      struct stop *held);
/* Forgets the list's tracepoints; nothing of them is in the target's code any more. */
void tracers_forget(struct session *session, const struct tracepoint_list *list);
/* Undoes all that can be undone; the process is quiet. The summary says what stays. */
void tracers_leave(struct session *session, struct session_summary *summary);
/* Is a thread of the process in a function that a trampoline called? Then its return address is on
 * some stack. */
bool tracers_is_inside(const struct session *session, struct proc *proc);

#endif
