/*
 * explain.h - dyntrace trace --explain LOC: show how a probe would be placed, or why it can't be.
 */
#ifndef DYNTRACE_EXPLAIN_H
#define DYNTRACE_EXPLAIN_H

#include "control/proc/proc.h"

/* Prints the code before and after, and the trampoline with comments. Changes nothing. */
struct error *explain_location(struct proc *proc, const char *location);

#endif
