/*
 * trap.S - what the kernel and the guards call (trap.c).
 *
 * dt_guard, at a `syscall` instruction of the target's libc, where rcx and r11 are free:
 *
 *	in:	rcx = struct dt_control; the registers as for the call
 *	out:	rcx = 1: the call was made, rax = its result; 0: make it, with registers that may have changed
 *	kept:	everything else, all flags
 */
#include "x86_64/sys.h"

	.text
	.globl dt_guard
	.type dt_guard, @function
	.balign 64
dt_guard:
	pushfq
	pushq	%r11
	pushq	%r9
	pushq	%r8
	pushq	%r10
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%rax				/* struct trap_call */
	cld
	movq	%rcx, %rdi
	movq	%rsp, %rsi
	call	trap_guard
	movq	%rax, %rcx
	popq	%rax
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%r10
	popq	%r8
	popq	%r9
	popq	%r11
	popfq
	ret
	.size dt_guard, . - dt_guard

/* The handler. If the target has one of its own, that goes on as if the kernel had called it. */
	.globl dt_trap
	.type dt_trap, @function
	.balign 16
dt_trap:
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	leaq	__ehdr_start(%rip), %rdi	/* where the agent is mapped */
	call	trap_handle
	popq	%rdx
	popq	%rsi
	popq	%rdi
	testq	%rax, %rax
	jz	.Lback
	jmp	*%rax
.Lback:
	ret
	.size dt_trap, . - dt_trap

/* Unwinders know a signal frame by these very bytes. */
	.globl dt_trap_return
	.type dt_trap_return, @function
	.balign 16
	nop
dt_trap_return:
	.byte	0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0	/* movq $15, %rax: rt_sigreturn */
	syscall
	.size dt_trap_return, . - dt_trap_return

	.section .note.GNU-stack, "", @progbits
