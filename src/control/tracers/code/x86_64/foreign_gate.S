/*
 * foreign_gate.S - calls a C function from generated code, and restores every register.
 *
 * The controller doesn't run this code: it copies one variant into the target's code memory, chosen
 * by the registers that processor and kernel support (foreign_code.h). The function may use any
 * vector register (memcpy does), and at a probe any of them may be live (H1).
 *
 *	in:	rbx = { function, its first argument }, rcx = second, rdx = third argument
 *	lost:	rax, rcx, rdx, and the flags that lahf and seto save
 *
 *	rbp+8	return address
 *	rbp	rbp
 *	rbp-8..	rsi rdi r8 r9 r10 r11
 *	rbp-56	flags
 *	rsp	vector registers, from a multiple of 64 on; then mxcsr, twice
 *
 * The controller fills in the word at its start: the address of a count of the threads inside.
 * Their return addresses lie on stacks that stack_scan.c doesn't read for our code.
 */
#include "vectors.h"

#define FLAG_DF 0x400
#define FLAG_AC 0x40000
#define FLAGS -56

	.section .rodata

	.macro gate name, kind, size
	.balign 16
	.globl \name
\name:
	.quad	0				/* the address of the count */
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushfq
	cld
	testl	$FLAG_AC, FLAGS(%rbp)
	jnz	3f
1:	movq	\name(%rip), %rsi
	lock incl (%rsi)
	subq	$(\size + 64), %rsp
	andq	$-64, %rsp
	save_\kind
	stmxcsr	\size(%rsp)
	movq	8(%rbx), %rdi
	movq	%rcx, %rsi
	call	*(%rbx)
	stmxcsr	\size + 4(%rsp)
	movl	\size(%rsp), %eax
	cmpl	%eax, \size + 4(%rsp)
	jne	4f
2:	load_\kind
	movq	\name(%rip), %rsi
	lock decl (%rsi)
	leaq	FLAGS(%rbp), %rsp
	testl	$(FLAG_DF | FLAG_AC), (%rsp)
	jnz	5f
	leaq	8(%rsp), %rsp
6:	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rbp
	ret
3:	pushfq
	andq	$~FLAG_AC, (%rsp)
	popfq
	jmp	1b
4:	ldmxcsr	\size(%rsp)
	jmp	2b
5:	popfq
	jmp	6b
	.globl \name\()_end
\name\()_end:
	.endm

	gate foreign_gate_none, none, 0
	gate foreign_gate_xmm, xmm, 256
	gate foreign_gate_ymm, ymm, 512
	gate foreign_gate_zmm, zmm, 2112
	gate foreign_gate_zmm_bw, zmm_bw, 2112

	.section .note.GNU-stack, "", @progbits
