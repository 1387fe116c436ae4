/*
 * wide.h - does a module use vector registers beyond the lower halves of xmm0 to xmm15 at all?
 *
 * All vector registers are the caller's to save, so at a probe they can be live only by what
 * compilers know of functions within one file, or by assembly: both are in the module of the probe.
 * One that has no instruction in a VEX, EVEX or XOP encoding can't have put anything into the upper
 * halves, into zmm16 to zmm31 or into mask registers: who calls a function there need not save
 * those.
 *
 * Reads the file only.
 */
#ifndef DYNTRACE_WIDE_H
#define DYNTRACE_WIDE_H

#include "control/modules/module.h"

/* True as well where it can't be told: code that isn't all instructions, very large files. */
struct error *wide_look(struct proc *proc, struct module *module, bool *ret_is_wide);

#endif
