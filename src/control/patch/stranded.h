/*
 * stranded.h - threads that wait in trampolines of a controller that is gone, in a moved system
 * call, go back to the program's own code.
 *
 * The rows after each trampoline (shared/frame.h) tell its boundaries, where the registers and the
 * stack are the program's own. They are the target's word: only places in the given sites, which
 * have their original bytes, are believed.
 */
#ifndef DYNTRACE_STRANDED_H
#define DYNTRACE_STRANDED_H

#include "patch.h"

/* `sites` are sorted by address, and restored. `windows`: where trampolines may be. */
struct error *stranded_send_back(struct proc *proc, struct stop *stop,
				 const struct patch_site *sites, size_t count,
				 const struct patch_range *windows, size_t window_count);

#endif
