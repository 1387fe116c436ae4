/*
 * fault.S - the handler of signals in functions of the user's (fault.c), as trap.S has it.
 */
	.text
	.globl dt_fault
	.type dt_fault, @function
	.balign 16
dt_fault:
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	movq	%rdx, %rcx
	movq	%rsi, %rdx
	movl	%edi, %esi
	leaq	__ehdr_start(%rip), %rdi	/* where the agent is mapped */
	call	fault_handle
	popq	%rdx
	popq	%rsi
	popq	%rdi
	testq	%rax, %rax
	jz	.Lback
	jmp	*%rax
.Lback:
	ret
	.size dt_fault, . - dt_fault

	.section .note.GNU-stack, "", @progbits
