/*
 * gather.S - dt_gather: from a trampoline to gather_event and back. The contract is in
 * src/shared/program.h; why signals are blocked before a stack is claimed, in slow.S.
 *
 *	  +56	return address into the trampoline
 *	  +48	flags
 *	  +24..	r12 r13 r14
 *	  +16	the result
 *	  +8	until when to wait for room (B8); 0: not yet
 *	   0	the target's signal mask	<- rsp and r14
 */
#include "own_stack.h"

#define RESULT 16
#define DEADLINE 8
#define PROGRAM_ID 0
#define PROGRAM_SIZE 4

	.text
	.globl dt_gather
	.type dt_gather, @function
	.balign 64
dt_gather:
	.cfi_startproc
	pushfq
	.cfi_def_cfa_offset 16
	.irp what, %r12, %r13, %r14, $0, $0, $0
	pushq	\what
	.cfi_adjust_cfa_offset 8
	.endr
	.cfi_offset %r12, -24
	.cfi_offset %r13, -32
	.cfi_offset %r14, -40
	cld
	movq	%rdi, %r12			/* registers */
	movq	%rsi, %r13			/* program */
	movq	%rsp, %r14
	testl	$FLAG_AC, 48(%rsp)
	jz	.Laligned
	clear_alignment_check
.Laligned:
	count_loud incl, %r8
	unless_filtered	%r8, .Lquiet
	block_signals .Llose
	movl	$SLOW_STACK_TRIES, %r9d
.Lclaim:
	movq	CONTROL_STATE(%rbx), %r8
	claim_stack .Lclaim, .Lall_busy
	movq	%rbx, %rdi
	movq	%r13, %rsi
	movq	%r12, %rdx
	call	gather_event
	popq	%rsi
	movq	%rax, RESULT(%r14)
	movq	%r14, %rsp
	give_back_stack
.Lunblock:
	unblock_signals %r14
	count_loud decl, %r8
.Ldone:
	movq	RESULT(%rsp), %rax
	cmpq	$SLOW_AGAIN, %rax
	je	.Lagain
	.cfi_remember_state
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	.irp reg, %r14, %r13, %r12
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_restore_state

	/* Holds nothing meanwhile, as in slow.S. */
.Lagain:
	movq	%rbx, %rdi
	leaq	DEADLINE(%rsp), %rsi
	movl	PROGRAM_ID(%r13), %edx
	call	slow_wait
	jmp	.Laligned

.Lall_busy:
	wait_for_stack .Lclaim, .Lno_stack
.Lno_stack:
	movq	%rbx, %rdi
	movl	PROGRAM_ID(%r13), %esi
	movl	PROGRAM_SIZE(%r13), %edx
	call	slow_give_up
	movq	%rax, RESULT(%r14)
	jmp	.Lunblock

.Llose:
	count_loud decl, %r8
	movq	%rbx, %rdi
	movl	PROGRAM_ID(%r13), %esi
	movl	PROGRAM_SIZE(%r13), %edx
	call	slow_give_up
	movq	%rax, RESULT(%r14)
	jmp	.Ldone

.Lquiet:
	count_loud decl, %r8
	movq	%rbx, %rdi
	movq	%r13, %rsi
	movq	%r12, %rdx
	call	gather_quiet
	movq	%rax, RESULT(%r14)
	jmp	.Ldone
	.cfi_endproc
	.size dt_gather, . - dt_gather

	.section .note.GNU-stack, "", @progbits
