/*
 * sweep.h - remove what a killed controller left half made or half removed.
 *
 * For a process whose text has no probe any more: nothing leads into our memory then. Our mappings
 * are known by the names of the memfds, and by their place beside those (agent.c).
 */
#ifndef DYNTRACE_SWEEP_H
#define DYNTRACE_SWEEP_H

#include "agent.h"

/* Does the process have mappings or descriptors of ours? Stops no thread. */
struct error *sweep_look(struct proc *proc, bool *ret_any);
/* Does the process have descriptors of ours? */
struct error *sweep_look_descriptors(const struct proc *proc, bool *ret_any);
/* Unmaps and closes all. `reserved`: NULL, or a window that was noted and perhaps only reserved. */
struct error *sweep_clean(struct stop *stop, const struct dt_window *reserved);

#endif
