/*
 * gather.S - dt_gather: from a trampoline to gather_event and back. The contract is in
 * src/shared/program.h; why signals are blocked before a stack is claimed, in slow.S.
 *
 *	  +40	return address into the trampoline
 *	  +32	flags
 *	  +8..	r12 r13 r14
 *	   0	the target's signal mask	<- rsp and r14
 */
#include "target/agent_parts.h"
#include "target/filtered.h"
#include "sys.h"

#define FLAG_AC 0x40000
#define PROGRAM_ID 0
#define PROGRAM_SIZE 4

	.section .rodata
	.balign 8
every_signal:
	.quad -1

	.text
	.globl dt_gather
	.type dt_gather, @function
	.balign 64
dt_gather:
	.cfi_startproc
	pushfq
	.cfi_def_cfa_offset 16
	.irp what, %r12, %r13, %r14, $0
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
	testl	$FLAG_AC, 32(%rsp)
	jz	.Laligned
	pushfq
	.cfi_adjust_cfa_offset 8
	andq	$~FLAG_AC, (%rsp)
	popfq
	.cfi_adjust_cfa_offset -8
.Laligned:
	unless_filtered	%r8, .Llose
	movl	$SYS_RT_SIGPROCMASK, %eax
	xorl	%edi, %edi			/* SIG_BLOCK */
	leaq	every_signal(%rip), %rsi
	movq	%rsp, %rdx
	movl	$8, %r10d
	syscall
	testq	%rax, %rax
	jnz	.Llose
	movl	$SLOW_STACK_TRIES, %r9d
.Lclaim:
	movq	CONTROL_STATE(%rbx), %r8
	movq	STATE_STACKS_BUSY(%r8), %rsi
	notq	%rsi
	bsfq	%rsi, %rsi
	jz	.Lall_busy
	lock btsq %rsi, STATE_STACKS_BUSY(%r8)
	jc	.Lclaim
	leaq	1(%rsi), %rax
	shlq	$STATE_STACK_SHIFT, %rax
	leaq	STATE_STACKS(%r8, %rax), %rsp
	pushq	%rsi
	movq	%rbx, %rdi
	movq	%r13, %rsi
	movq	%r12, %rdx
	call	gather_event
	popq	%rsi
	movq	%rax, %r12
	movq	%r14, %rsp
	movq	CONTROL_STATE(%rbx), %r8
	lock btrq %rsi, STATE_STACKS_BUSY(%r8)
.Lunblock:
	movl	$SYS_RT_SIGPROCMASK, %eax
	movl	$2, %edi			/* SIG_SETMASK */
	movq	%r14, %rsi
	xorl	%edx, %edx
	movl	$8, %r10d
	syscall
.Ldone:
	movq	%r12, %rax
	.cfi_remember_state
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	.irp reg, %r14, %r13, %r12
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endr
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_restore_state

.Lall_busy:
	decl	%r9d
	jz	.Lno_stack
	movl	$SYS_SCHED_YIELD, %eax
	syscall
	jmp	.Lclaim
.Lno_stack:
	movq	%rbx, %rdi
	movl	PROGRAM_ID(%r13), %esi
	movl	PROGRAM_SIZE(%r13), %edx
	call	slow_give_up
	movq	%rax, %r12
	jmp	.Lunblock

.Llose:
	movq	%rbx, %rdi
	movl	PROGRAM_ID(%r13), %esi
	movl	PROGRAM_SIZE(%r13), %edx
	call	slow_give_up
	movq	%rax, %r12
	jmp	.Ldone
	.cfi_endproc
	.size dt_gather, . - dt_gather

	.section .note.GNU-stack, "", @progbits
