/*
 * sweep.h - take away what a controller that was killed left half made, or half removed.
 *
 * For a process in whose text no probe leads anywhere any more: then our memory is only memory.
 * What is ours is told by the names of the memfds, and by what stands beside them (agent.c).
 */
#ifndef DYNTRACE_SWEEP_H
#define DYNTRACE_SWEEP_H

#include "agent.h"

/* Is there anything? Nothing is stopped for this. */
struct error *sweep_look(struct proc *proc, bool *ret_any);
/* Descriptors alone. */
struct error *sweep_look_descriptors(const struct proc *proc, bool *ret_any);
/* Unmaps and closes it. `reserved`: NULL, or a window that may not have been made yet. */
struct error *sweep_clean(struct stop *stop, const struct dt_window *reserved);

#endif
