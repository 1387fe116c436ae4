/*
 * remote_sigaction.h - read and set the target's signal actions through a held thread; and private
 * memory in the target for our handlers.
 */
#ifndef DYNTRACE_REMOTE_SIGACTION_H
#define DYNTRACE_REMOTE_SIGACTION_H

#include "control/stop/stop.h"
#include "control/proc/proc.h"
#include "shared/layout.h"

/* Maps private memory, which fork copies: at `at` if nothing is there; 0: anywhere. */
struct error *remote_sigaction_map(struct stop *stop, taddr at, uint64_t size, taddr *ret_at);
/* Is that memory there? A controller that was killed around the mapping or unmapping leaves its
 * address in the control page. `size` 0: the kernel may have joined it with its neighbours. */
bool remote_sigaction_is_mapped(struct proc *proc, taddr at, uint64_t size);
struct error *remote_sigaction_unmap(struct stop *stop, taddr at, uint64_t size);

/* `scratch`: room for a struct dt_sigaction in the target. */
struct error *remote_sigaction_get(struct proc *proc, struct stop *stop, taddr scratch,
				   unsigned signal, struct dt_sigaction *ret_action);
struct error *remote_sigaction_set(struct proc *proc, struct stop *stop, taddr scratch,
				   unsigned signal, const struct dt_sigaction *action);
/* The action that calls a handler of the agent. */
struct dt_sigaction remote_sigaction_ours(taddr handler, taddr restorer);

#endif
