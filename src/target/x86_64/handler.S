/*
 * handler.S - the agent's signal handlers and their return to the kernel (handler.h).
 */
	.text

/* A handler of the target's own, if \function returns one, runs as if the kernel had called it. */
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
	leaq	__ehdr_start(%rip), %rdi	/* the agent's address */
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

/* Unwinders recognise a signal frame by exactly these bytes. */
	.globl dt_trap_return
	.type dt_trap_return, @function
	.balign 16
	nop
dt_trap_return:
	.byte	0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0	/* movq $15, %rax: rt_sigreturn */
	syscall
	.size dt_trap_return, . - dt_trap_return

	.section .note.GNU-stack, "", @progbits
