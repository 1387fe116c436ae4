/*
 * trap.S - dt_guard, called by the guards of SIGTRAP (trap.c).
 *
 * dt_guard, at a `syscall` instruction of the target's libc, where rcx and r11 are free:
 *
 *	in:	rcx = struct dt_control; the registers as for the call
 *	out:	rcx = 1: the call was made, rax = its result;
 *		0: make it, with registers that may have changed
 *	kept:	all other registers, all flags
 */
#include "sys.h"

	.text
	.globl dt_guard
	.type dt_guard, @function
	.balign 64
dt_guard:
	.cfi_startproc
	pushfq
	.cfi_def_cfa_offset 16
	.irp reg, %r11, %r9, %r8, %r10, %rdx, %rsi, %rdi, %rax
	pushq	\reg				/* from rax on: struct trap_call */
	.cfi_adjust_cfa_offset 8
	.endr
	cld
	movq	%rcx, %rdi
	movq	%rsp, %rsi
	call	trap_guard
	movq	%rax, %rcx
	.irp reg, %rax, %rdi, %rsi, %rdx, %r10, %r8, %r9, %r11
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.endr
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size dt_guard, . - dt_guard

	.section .note.GNU-stack, "", @progbits
