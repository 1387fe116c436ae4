/*
 * loader.h - the dynamic loader of a process that is at its first instruction. Private to inject/.
 *
 * Reads the loader's own symbols from the process's memory: whatever file it came from, this is
 * what runs.
 */
#ifndef DYNTRACE_LOADER_H
#define DYNTRACE_LOADER_H

#include "control/proc/proc.h"

struct loader {
	/* _dl_debug_state: called when the list of libraries is about to change, and when it has */
	taddr notify;
	taddr debug; /* struct r_debug; 0: see debug_pointer */
	taddr debug_pointer; /* where its address will stand (musl) */
};

/* *ret_found false: static, or no loader that we know. */
struct error *loader_find(struct proc *proc, struct loader *ret_loader, bool *ret_found);

/* Asked in a call of `notify`: is everything mapped and relocated? */
bool loader_is_done(struct proc *proc, const struct loader *loader);

#endif
