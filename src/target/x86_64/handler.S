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
	handler	dt_front, front_handle
	.globl	front_entry
	.hidden	front_entry
	.set	front_entry, dt_front

/* A place that a handler returns to, with rsp at struct ucontext: its caller's registers are there.
 * The nop belongs to it, because unwinders look one byte before return addresses. */
	.macro	kept number, low, high=0
	.cfi_escape 0x10, \number, 3, 0x77, \low, \high	/* at rsp + offset, as a SLEB128 */
	.endm
	.macro	returns name
	.globl	\name
	.type	\name, @function
	.balign	16
	.cfi_startproc simple
	.cfi_signal_frame
	.cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 6		/* CFA: the word at rsp + 160 */
	kept	8, 0xa8
	kept	9, 0xb0
	kept	10, 0xb8
	kept	11, 0xc0
	kept	12, 0xc8
	kept	13, 0xd0
	kept	14, 0xd8
	kept	15, 0xe0
	kept	5, 0xe8
	kept	4, 0xf0
	kept	6, 0xf8
	kept	3, 0x80, 1
	kept	1, 0x88, 1
	kept	0, 0x90, 1
	kept	2, 0x98, 1
	kept	7, 0xa0, 1
	kept	16, 0xa8, 1
	nop
\name:
	.endm

/* Unwinders recognise a signal frame by exactly these bytes. */
	returns	dt_trap_return
	.byte	0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0	/* movq $15, %rax: rt_sigreturn */
	syscall
	.cfi_endproc
	.size dt_trap_return, . - dt_trap_return
	.globl	trap_return_entry
	.hidden	trap_return_entry
	.set	trap_return_entry, dt_trap_return

	.hidden	dt_front_return
	returns	dt_front_return
	leaq	__ehdr_start(%rip), %rdi	/* the agent's address */
	movq	%rsp, %rsi
	call	front_back
	movl	$15, %eax			/* rt_sigreturn */
	syscall
	.cfi_endproc
	.size dt_front_return, . - dt_front_return

	.section .note.GNU-stack, "", @progbits
