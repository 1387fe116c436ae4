/*
 * sweep.h - remove what a killed controller left half made or half removed.
 *
 * For a process whose text has no probe any more: nothing leads into our memory then. Our mappings
 * are known by the names of the memfds, and by their place beside those (agent.c).
 */
#ifndef DYNTRACE_SWEEP_H
#define DYNTRACE_SWEEP_H

#include "agent.h"

/* (S12) Waits until no thread of the process is in a list of calls that a killed controller has
 * left it (ahead.h), or at a single one: until then the thread makes mappings and descriptors, and
 * the list's code mustn't go. Before anything else of a dead controller's is looked at. */
struct error *sweep_await_home(struct proc *proc);
/* Does the process have mappings or descriptors of ours? Stops no thread. */
struct error *sweep_look(struct proc *proc, bool *ret_any);
/* Does the process have descriptors of ours? */
struct error *sweep_look_descriptors(const struct proc *proc, bool *ret_any);
/* Unmaps and closes all. `reserved`: NULL, or a window that was noted and perhaps only reserved. */
struct error *sweep_clean(struct stop *stop, const struct dt_window *reserved);

#endif
