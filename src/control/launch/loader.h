/*
 * loader.h - the dynamic loader of a process that is at its first instruction.
 *
 * Reads the loader's symbols from the process's memory, not from a file: so they are right whatever
 * file it was loaded from.
 */
#ifndef DYNTRACE_LOADER_H
#define DYNTRACE_LOADER_H

#include "control/proc/proc.h"

struct loader {
	/* _dl_debug_state: the loader calls it before and after it changes the list of libraries */
	taddr notify;
	taddr debug; /* struct r_debug; 0: see debug_pointer */
	taddr debug_pointer; /* pointer to struct r_debug, set later (musl) */
};

/* *ret_found false: the program is static, or its loader unknown. */
struct error *loader_find(struct proc *proc, struct loader *ret_loader, bool *ret_found);

/* During a call of `notify`: are all libraries mapped and relocated? A failure is no `false`: there
 * may be no further call. */
struct error *loader_look(struct proc *proc, const struct loader *loader, bool *ret_done);

#endif
