/*
 * syscall_gadget.h - find the two pieces of the target's own code that remote calls run on.
 *
 *	call		syscall; ret
 *	restorer	mov $15, %rax; syscall		(rt_sigreturn: where handlers return to)
 *
 * Every libc has both. Searched once per process, and checked again before each use: text can
 * change. Never in memory of dyntrace's, where copies of both may be: such a call unmaps it.
 */
#ifndef DYNTRACE_SYSCALL_GADGET_H
#define DYNTRACE_SYSCALL_GADGET_H

#include "control/proc/proc.h"

struct syscall_gadgets {
	taddr call; /* a `syscall`; with `ret` after it if `restorer` isn't 0 */
	taddr restorer; /* 0: none */
	uint8_t home; /* where its `syscall` is, from there */
};

struct error *syscall_gadget_find(struct proc *proc, const struct maps *maps,
				  struct syscall_gadgets *ret_gadgets);

#endif
