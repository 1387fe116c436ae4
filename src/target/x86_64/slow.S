/*
 * slow.S - dt_slow: from a trampoline that can't continue, to C, and back.
 *
 * The contract is at the end of src/shared/layout.h. The target's stack may be tiny (H4), so
 * dt_slow puts little there:
 *
 *	  +96	return address into the trampoline
 *	  +88	flags of the target (direction and alignment check count)
 *	  +80..	rsi rdi r8 r9 r10 r11 rbp
 *	  +24	event id, or another argument (layout.h)
 *	  +16	event size
 *	  +8	deadline of a wait for room; 0: not waited yet
 *	   0	the result				<- rsp while slow_find runs
 *	  -8	the target's signal mask		<- rsp, and rbp, once signals are blocked
 *
 * slow_find runs on this stack. If it doesn't suffice, dt_slow first blocks all signals and then
 * claims a stack: so no other code of this thread can run, or jump away, while the stack is held,
 * and a signal that comes before or after finds the slot consistent. Its handler can unwind: the
 * CFI is right wherever signals aren't blocked. In a forked child no stack is held, since its state
 * is wiped.
 */
#include "own_stack.h"

#define SLOW_TOUCHED 216 /* slow_find uses no more */
#define FRAME_FLAGS 88
#define FRAME_ID 24
#define FRAME_SIZE 16
#define FRAME_DEADLINE 8
#define FRAME_RESULT 0

	.text
	.globl dt_slow
	.type dt_slow, @function
	.balign 64
dt_slow:
	.cfi_startproc
	pushfq
	.cfi_def_cfa_offset 16
	.irp what, %rsi, %rdi, %r8, %r9, %r10, %r11, %rbp, %rax, %rdx, $0, $0
	pushq	\what
	.cfi_adjust_cfa_offset 8
	.endr
	.cfi_offset %rbp, -72
	cld
	/* A stack overflow happens here and not in C code, where registers would be lost (front.c). */
	testb	$0, -SLOW_TOUCHED(%rsp)
.Ltouched:
	testl	$FLAG_AC, FRAME_FLAGS(%rsp)
	jnz	.Lclear_alignment_check
.Lclear:
	movq	%rbx, %rdi
	movq	FRAME_ID(%rsp), %rsi
	movq	FRAME_SIZE(%rsp), %rdx
	movq	%r14, %rcx
	call	slow_find
	cmpq	$SLOW_NEEDED, %rax
	je	.Llong_way
.Ldone:
	cmpq	$SLOW_AGAIN, %rax
	je	.Lagain
	movq	%rax, %rcx
	.cfi_remember_state
	addq	$16, %rsp
	.cfi_adjust_cfa_offset -16
	.irp reg, %rdx, %rax, %rbp, %r11, %r10, %r9, %r8, %rdi, %rsi
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.endr
	.cfi_restore %rbp
	return_with_flags
	.cfi_restore_state

.Lclear_alignment_check:
	clear_alignment_check
	jmp	.Lclear

.Llong_way:
	unless_filtered	%r8, .Luncounted
	count_loud incl, %r8
	unless_filtered	%r8, .Lquiet
	pushq	$0				/* the old mask goes here */
	.cfi_adjust_cfa_offset 8
	block_signals .Lnot_blocked
	movq	%rsp, %rbp
	movl	$SLOW_STACK_TRIES, %r9d
.Lclaim:
	movq	CONTROL_STATE(%rbx), %r8
	claim_stack .Lclaim, .Lall_busy
	movq	%rbx, %rdi
	movq	8 + FRAME_ID(%rbp), %rsi
	movq	8 + FRAME_SIZE(%rbp), %rdx
	movq	%r14, %rcx
	call	slow_path
	popq	%rsi
	movq	%rbp, %rsp
	give_back_stack
.Lunblock:
	movq	%rax, 8 + FRAME_RESULT(%rsp)
	unblock_signals %rsp
	count_loud decl, %r8
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	movq	FRAME_RESULT(%rsp), %rax
	jmp	.Ldone

.Lagain:
	movq	%rbx, %rdi
	leaq	FRAME_DEADLINE(%rsp), %rsi
	movq	FRAME_ID(%rsp), %rdx
	call	slow_wait
	testq	%rax, %rax
	jnz	.Lclear
	jmp	.Ldone

.Lall_busy:
	.cfi_adjust_cfa_offset 8
	wait_for_stack .Lclaim, .Lno_stack
.Lno_stack:
	movq	%rbx, %rdi
	movq	8 + FRAME_ID(%rsp), %rsi
	movq	8 + FRAME_SIZE(%rsp), %rdx
	call	slow_give_up
	jmp	.Lunblock

.Lnot_blocked:
	count_loud decl, %r8
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	movq	%rbx, %rdi
	movq	FRAME_ID(%rsp), %rsi
	movq	FRAME_SIZE(%rsp), %rdx
	call	slow_give_up
	jmp	.Ldone

.Lquiet:
	count_loud decl, %r8
.Luncounted:
	movq	%rbx, %rdi
	movq	%r14, FRAME_RESULT(%rsp)	/* struct slow_frame */
	movq	%rsp, %rsi
	call	slow_quiet
	jmp	.Ldone
	.cfi_endproc
	.size dt_slow, . - dt_slow

	.if	.Ltouched - dt_slow > FRONT_SLOW_SIZE
	.error	"front.c doesn't know all pushes of dt_slow"
	.endif
	.section .note.GNU-stack, "", @progbits
