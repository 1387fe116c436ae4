/*
 * leftovers.h - report the cleanup after a dyntrace that was killed.
 */
#ifndef DYNTRACE_LEFTOVERS_H
#define DYNTRACE_LEFTOVERS_H

#include "control/session/takeover/takeover.h"

/* Prints a note on stderr if anything was found. */
void leftovers_note(const struct proc *proc, const struct takeover *takeover);

#endif
