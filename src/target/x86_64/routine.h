/*
 * routine.h - macros of loads.S and reads.S, whose functions have labels in their middle: of a
 * load, and of where its thread goes on after a fault (signals/loads.c).
 */
#ifndef DYNTRACE_ROUTINE_H
#define DYNTRACE_ROUTINE_H

	.macro	label name
	.globl	\name
	.hidden	\name
\name:
	.endm

/* \hidden 0: trampolines call the function. */
	.macro	begin name, align, hidden=1
	.balign	\align
	.globl	\name
	.if	\hidden
	.hidden	\name
	.endif
	.type	\name, @function
\name:
	.cfi_startproc
	.endm

	.macro	end name
	.cfi_endproc
	.size	\name, . - \name
	.endm

#endif
