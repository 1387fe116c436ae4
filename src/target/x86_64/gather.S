/*
 * gather.S - dt_gather: from a trampoline to gather_event and back. The contract is in
 * src/shared/program.h.
 *
 * A thread that is known to have room on its own stack (stack_room.c) runs gather_event there, with
 * signals as they are: two system calls less. Every other thread runs it on a stack of the agent's;
 * slow.S says why signals are blocked before a stack is claimed.
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
#define HASH_MULTIPLIER 0x61c88647
#define HASH_SHIFT 26
#define HASH_MASK 0x7ffc0

/* r9 = the thread's slot, if that is at its hash and the thread has room on its own stack; else
 * jumps to \no. Uses no stack. Changes rax, rcx, rdx, r8 and r9. */
	.macro	find_room no
	rdfsbase %rax
	imulq	$HASH_MULTIPLIER, %rax, %rcx
	shrq	$HASH_SHIFT, %rcx
	andl	$HASH_MASK, %ecx
	movq	CONTROL_STATE(%rbx), %r8
	leaq	STATE_SLOTS(%r8, %rcx), %r9
	notq	%rax
	cmpq	%rax, (%r9)
	jne	\no
	movq	SLOT_TID_OFFSET(%r9), %rax
	movl	%fs:(%rax), %eax
	cmpl	SLOT_TID(%r9), %eax
	jne	\no
	leaq	-STACK_ROOM(%rsp), %rdx
	subq	STATE_OWN_STACKS(%r8, %rcx), %rdx
	cmpq	8 + STATE_OWN_STACKS(%r8, %rcx), %rdx
	jae	\no
	.endm

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
	/* No system call on this way, or one that counts itself (Q6). */
	unless_filtered	%r8, .Lblock
	find_room .Lblock
	movq	%rbx, %rdi
	movq	%r13, %rsi
	movq	%r12, %rdx
	movq	%r9, %rcx
	call	gather_event
	cmpq	$SLOW_AGAIN, %rax
	je	.Lblock
	movq	%rax, RESULT(%r14)
	jmp	.Ldone
.Lblock:
	unless_filtered	%r8, .Luncounted
	count_loud incl, %r8
	unless_filtered	%r8, .Lquiet
	block_signals .Llose
	movl	$SLOW_STACK_TRIES, %r9d
.Lclaim:
	movq	CONTROL_STATE(%rbx), %r8
	claim_stack .Lclaim, .Lall_busy
	movq	%rbx, %rdi
	call	stack_room_look_first
	movq	$SLOW_ELSEWHERE, RESULT(%r14)
	testb	%al, %al
	jnz	.Lgive_back
	movq	%rbx, %rdi
	movq	%r13, %rsi
	movq	%r12, %rdx
	xorl	%ecx, %ecx
	call	gather_event
	movq	%rax, RESULT(%r14)
	movq	%rbx, %rdi
	call	stack_room_look
	movq	%rbx, %rdi
	movq	(%r14), %rsi
	call	loads_look
.Lgive_back:
	popq	%rsi
	movq	%r14, %rsp
	give_back_stack
.Lunblock:
	unblock_signals %r14
	count_loud decl, %r8
.Ldone:
	movq	RESULT(%rsp), %rax
	cmpq	$SLOW_AGAIN, %rax
	je	.Lagain
	cmpq	$SLOW_ELSEWHERE, %rax
	je	.Laligned
	.cfi_remember_state
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	.irp reg, %r14, %r13, %r12
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
	return_with_flags
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
.Luncounted:
	movq	%rbx, %rdi
	movq	%r13, %rsi
	movq	%r12, %rdx
	call	gather_quiet
	movq	%rax, RESULT(%r14)
	jmp	.Ldone
	.cfi_endproc
	.size dt_gather, . - dt_gather

/* gather_ask(control, id, size): dt_slow as a function. */
	.globl gather_ask
	.hidden gather_ask
	.type gather_ask, @function
	.balign 16
gather_ask:
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbx, -16
	movq	%rdi, %rbx
	movl	%esi, %eax
	call	dt_slow
	movq	%rcx, %rax
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size gather_ask, . - gather_ask

	.section .note.GNU-stack, "", @progbits
