/*
 * hit_line.S - dt_line_hit(line, image): from a gate (foreign_gate.S) to hit_line and back, as any
 * C function. shared/hit_line.h has the rules.
 *
 * Blocks all signals, then claims a stack of the agent's, as slow.S. While the thread waits for
 * room in its output it holds no stack.
 *
 *	  +16..	r13 r12 rbx
 *	  +8	until when to wait (I13); 0: not waited yet
 *	   0	the target's signal mask	<- rsp
 */
#include "own_stack.h"

#define LINE_CONTROL 0
#define DEADLINE 8

	.text
	.globl dt_line_hit
	.type dt_line_hit, @function
	.balign 64
dt_line_hit:
	.cfi_startproc
	.irp reg, %rbx, %r12, %r13
	pushq	\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endr
	pushq	$0
	.cfi_adjust_cfa_offset 8
	pushq	$0
	.cfi_adjust_cfa_offset 8
	movq	%rdi, %r12			/* line */
	movq	%rsi, %r13			/* image */
	movq	LINE_CONTROL(%rdi), %rbx
	count_loud incl, %r8
	unless_filtered %r8, .Lrefuse
	block_signals .Lrefuse
	movl	$SLOW_STACK_TRIES, %r9d
.Lclaim:
	movq	%rsp, %rcx			/* the word at the stack's top */
	movq	CONTROL_STATE(%rbx), %r8
	claim_stack .Lclaim, .Lall_busy
	pushq	%rcx
	movq	%r12, %rdi
	movq	%r13, %rsi
	movq	(%rcx), %rdx
	leaq	DEADLINE(%rcx), %rcx
	call	hit_line
	popq	%rcx
	popq	%rsi
	movq	%rcx, %rsp
	give_back_stack
	testq	%rax, %rax
	jnz	.Lwait
.Lunblock:
	unblock_signals %rsp
.Ldone:
	count_loud decl, %r8
	.cfi_remember_state
	addq	$16, %rsp
	.cfi_adjust_cfa_offset -16
	.irp reg, %r13, %r12, %rbx
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
	ret
	.cfi_restore_state

.Lwait:
	movq	%r12, %rdi
	leaq	DEADLINE(%rsp), %rsi
	call	hit_wait
	movl	$SLOW_STACK_TRIES, %r9d
	jmp	.Lclaim

.Lall_busy:
	wait_for_stack .Lclaim, .Lno_stack
.Lno_stack:
	movq	%r12, %rdi
	call	hit_refuse
	jmp	.Lunblock

.Lrefuse:
	movq	%r12, %rdi
	call	hit_refuse
	jmp	.Ldone
	.cfi_endproc
	.size dt_line_hit, . - dt_line_hit

	.section .note.GNU-stack, "", @progbits
