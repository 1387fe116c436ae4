/*
 * wide.h - does a module use vector registers beyond xmm0 to xmm15 at all?
 *
 * All vector registers are caller-saved, so at a probe they can be live only by what compilers know
 * of functions within one file, or by assembly: both lie in the probe's module. A module without an
 * instruction in a VEX, EVEX or XOP encoding can't have written the upper halves, zmm16 to zmm31 or
 * mask registers: a gate there need not save them.
 *
 * Reads the file only.
 */
#ifndef DYNTRACE_WIDE_H
#define DYNTRACE_WIDE_H

#include "control/modules/module.h"

/* Also true if unknown: text that isn't all instructions, very large files. */
struct error *wide_look(struct proc *proc, struct module *module, bool *ret_is_wide);

#endif
