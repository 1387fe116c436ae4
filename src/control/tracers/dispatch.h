/*
 * dispatch.h - what a session asks of all tracers. Each tracer has its own folder.
 */
#ifndef DYNTRACE_DISPATCH_H
#define DYNTRACE_DISPATCH_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

/* False: out of memory; the caller calls tracers_free all the same. */
bool tracers_create(struct session *session);
void tracers_free(struct session *session);
/* Frees the tracers' parts of the tracepoint. */
void tracers_free_use(struct session *session, struct tracepoint *tracepoint);

/* session_tracers_from. */
struct error *tracers_from(struct session *session, taddr *ret_from);

/* Does the list need tracers_map? */
bool tracers_wants(const struct session *session, const struct tracepoint_list *list);
/* Maps the tracers' memory by way of a held thread. */
struct error *tracers_map(struct session *session, const struct tracepoint_list *list,
			  struct stop *stop);
/* After tracers_map: fills in what each trampoline does. `held` as in session_begin. */
struct error *tracers_prepare(struct session *session, const struct tracepoint_list *list,
			      struct stop *held);
/* Forgets the list's tracepoints, whose sites are removed from the target's code. */
void tracers_forget(struct session *session, const struct tracepoint_list *list);
/* Undoes what can be undone, once no site is left. The summary names what stays. */
void tracers_leave(struct session *session, struct session_summary *summary);
/* Is a thread of the process in a function that a trampoline called? Then an address of the
 * trampoline is on its stack. */
bool tracers_is_inside(const struct session *session, struct proc *proc);

#endif
