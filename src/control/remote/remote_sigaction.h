/*
 * remote_sigaction.h - what signals do in the target, by way of a held thread; and private memory there for
 * whoever handles some.
 */
#ifndef DYNTRACE_REMOTE_SIGACTION_H
#define DYNTRACE_REMOTE_SIGACTION_H

#include "control/stop/stop.h"
#include "control/proc/proc.h"
#include "shared/layout.h"

/* Memory that fork copies. */
struct error *remote_sigaction_map(struct stop *stop, uint64_t size, taddr *ret_at);
struct error *remote_sigaction_unmap(struct stop *stop, taddr at, uint64_t size);

/* `scratch`: room for a struct dt_sigaction there. */
struct error *remote_sigaction_get(struct proc *proc, struct stop *stop, taddr scratch, unsigned signal,
			 struct dt_sigaction *ret_action);
struct error *remote_sigaction_set(struct proc *proc, struct stop *stop, taddr scratch, unsigned signal,
			 const struct dt_sigaction *action);
/* A handler of the agent's. */
struct dt_sigaction remote_sigaction_ours(taddr handler, taddr restorer);

#endif
