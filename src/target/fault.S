/*
 * fault.S - the handler of signals in functions of the user's (fault.c), as trap.S has it.
 */
	.text
	.globl dt_fault
	.type dt_fault, @function
	.balign 16
dt_fault:
	.cfi_startproc
	.irp reg, %rdi, %rsi, %rdx
	pushq	\reg
	.cfi_adjust_cfa_offset 8
	.endr
	movq	%rdx, %rcx
	movq	%rsi, %rdx
	movl	%edi, %esi
	leaq	__ehdr_start(%rip), %rdi	/* where the agent is mapped */
	call	fault_handle
	.irp reg, %rdx, %rsi, %rdi
	popq	\reg
	.cfi_adjust_cfa_offset -8
	.endr
	testq	%rax, %rax
	jz	.Lback
	jmp	*%rax
.Lback:
	ret
	.cfi_endproc
	.size dt_fault, . - dt_fault

	.section .note.GNU-stack, "", @progbits
