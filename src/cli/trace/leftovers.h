/*
 * leftovers.h - tells the user what became of a dead controller's leftovers.
 */
#ifndef DYNTRACE_LEFTOVERS_H
#define DYNTRACE_LEFTOVERS_H

#include "control/session/takeover/takeover.h"

/* On stderr; nothing if there were none. */
void leftovers_tell(const struct proc *proc, const struct takeover *takeover);

#endif
