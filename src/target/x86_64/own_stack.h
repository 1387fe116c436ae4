/*
 * own_stack.h - macros of slow.S and gather.S: block all signals, then claim a stack of the agent's
 * own (slow.S says why in this order). rbx = address of struct dt_control.
 */
#ifndef DYNTRACE_OWN_STACK_H
#define DYNTRACE_OWN_STACK_H

#include "target/agent_parts.h"
#include "sys.h"

#define FLAG_AC 0x40000
#define FLAG_DF 0x400

	.section .rodata
	.balign 8
every_signal:
	.quad -1
stack_pause:
	.quad 0, SLOW_STACK_PAUSE_NS

/* Turn the target's alignment check off (H2): compiled code is not made for it. */
	.macro	clear_alignment_check
	pushfq
	.cfi_adjust_cfa_offset 8
	andq	$~FLAG_AC, (%rsp)
	popfq
	.cfi_adjust_cfa_offset -8
	.endm

/* (Q6) Count this thread in or out. Changes \scratch and the flags. */
	.macro	count_loud how, scratch
	movq	CONTROL_STATE(%rbx), \scratch
	lock \how STATE_LOUD(\scratch)
	.endm

/* Jump to \no if the process filters its system calls (H26, Q7). Changes \scratch and the flags. */
	.macro	unless_filtered scratch, no
	testl	$CONTROL_NO_SYSCALLS, CONTROL_FLAGS(%rbx)
	jnz	\no
	movq	CONTROL_STATE(%rbx), \scratch
	cmpl	$0, STATE_FILTERED(\scratch)
	jne	\no
	.endm

/* Block all signals and store the target's mask at (rsp). SIG_SETMASK, as when it is restored: a
 * filter may allow only some ways (tor's does). Changes rax, rcx, rdx, rsi, rdi, r10 and
 * r11. */
	.macro	block_signals failed
	movl	$SYS_RT_SIGPROCMASK, %eax
	movl	$2, %edi			/* SIG_SETMASK */
	leaq	every_signal(%rip), %rsi
	movq	%rsp, %rdx
	movl	$8, %r10d
	syscall
	testq	%rax, %rax
	jnz	\failed
	.endm

/* Restore the target's mask, whose address is in register \mask. Changes the same registers. */
	.macro	unblock_signals mask
	movl	$SYS_RT_SIGPROCMASK, %eax
	movl	$2, %edi			/* SIG_SETMASK */
	movq	\mask, %rsi
	xorl	%edx, %edx
	movl	$8, %r10d
	syscall
	.endm

/* Claim a stack of struct dt_state (r8) and switch to it; its number is the first word there.
 * Jump to \again, the label in front, if another thread was faster. Changes rax and rsi. */
	.macro	claim_stack again, all_busy
	movq	STATE_STACKS_BUSY(%r8), %rsi
	notq	%rsi
	bsfq	%rsi, %rsi
	jz	\all_busy
	lock btsq %rsi, STATE_STACKS_BUSY(%r8)
	jc	\again
	leaq	1(%rsi), %rax
	shlq	$STATE_STACK_SHIFT, %rax
	leaq	STATE_STACKS(%r8, %rax), %rsp
	pushq	%rsi
	.endm

/* Release stack number rsi. Changes r8. */
	.macro	give_back_stack
	movq	CONTROL_STATE(%rbx), %r8
	lock btrq %rsi, STATE_STACKS_BUSY(%r8)
	.endm

/*
 * Sleep a moment and jump to \again, at most r9d times; then to \give_up. Holders of stacks may
 * wait for the kernel (page faults while other threads map their stacks), and a thread of
 * real-time priority that only yielded would keep the others from running. Changes rax, rcx, rdx,
 * rsi, rdi, r8, r10 and r11.
 */
	.macro	wait_for_stack again, give_up
	decl	%r9d
	jz	\give_up
	pushq	%r9
	movl	$SYS_FUTEX, %eax
	movq	CONTROL_STATE(%rbx), %rdi
	addq	$STATE_STACKS_BUSY, %rdi
	xorl	%esi, %esi			/* FUTEX_WAIT while the first 32 are busy */
	movl	$-1, %edx
	leaq	stack_pause(%rip), %r10
	xorl	%r8d, %r8d			/* filters were asked about these arguments */
	xorl	%r9d, %r9d
	syscall
	popq	%r9
	jmp	\again
	.endm

/* Return to the trampoline with the flags at rsp: popfq is slow, and only these two matter. */
	.macro	return_with_flags
	testl	$(FLAG_DF | FLAG_AC), (%rsp)
	jnz	.Lrestore_flags\@
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
.Lrestore_flags\@:
	.cfi_adjust_cfa_offset 8
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	.endm

#endif
