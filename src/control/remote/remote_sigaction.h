/*
 * remote_sigaction.h - read and set the target's signal actions through a held thread.
 */
#ifndef DYNTRACE_REMOTE_SIGACTION_H
#define DYNTRACE_REMOTE_SIGACTION_H

#include "control/stop/stop.h"
#include "control/proc/proc.h"
#include "shared/layout.h"

/* `scratch`: room for a struct dt_sigaction in the target. */
struct error *remote_sigaction_get(struct proc *proc, struct stop *stop, taddr scratch,
				   unsigned signal, struct dt_sigaction *ret_action);
struct error *remote_sigaction_set(struct proc *proc, struct stop *stop, taddr scratch,
				   unsigned signal, const struct dt_sigaction *action);
/* Sets the target's own action again, if a handler of the agent at that address has its place: the
 * target may have changed it since, by a system call that no guard has seen. */
struct error *remote_sigaction_give_back(struct proc *proc, struct stop *stop, taddr scratch,
					 unsigned signal, taddr agent,
					 const struct dt_sigaction *own);
/* The action that calls a handler of the agent. */
struct dt_sigaction remote_sigaction_ours(taddr handler, taddr restorer);

#endif
