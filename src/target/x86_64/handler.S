/*
 * handler.S - what the kernel calls for a signal of ours, and returns from (handler.h).
 */
	.text

/* If the target has a handler of its own, that goes on as if the kernel had called it. */
	.macro	handler name, function
	.globl	\name
	.type	\name, @function
	.balign	16
\name:
	.cfi_startproc
	.irp reg, %rdi, %rsi, %rdx
	pushq	\reg
	.cfi_adjust_cfa_offset 8
	.endr
	movq	%rdx, %rcx
	movq	%rsi, %rdx
	movl	%edi, %esi
	leaq	__ehdr_start(%rip), %rdi	/* where the agent is mapped */
	call	\function
	.irp reg, %rdx, %rsi, %rdi
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.endr
	testq	%rax, %rax
	jz	.Lback_\@
	jmp	*%rax
.Lback_\@:
	ret
	.cfi_endproc
	.size	\name, . - \name
	.endm

	handler	dt_trap, trap_handle
	handler	dt_fault, fault_handle

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
