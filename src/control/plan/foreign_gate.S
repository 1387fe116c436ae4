/*
 * foreign_gate.S - from generated code to a function in C that isn't ours, and back with every register as it was.
 *
 * This code doesn't run here: the controller copies one of the variants into the target's code memory, by what the
 * processor and the kernel have (foreign_code.h). The function may use any vector register (memcpy does), and at a probe
 * any of them may be live (H1).
 *
 *	in:	rbx = { function, its first argument }, rcx = second, rdx = third argument
 *	lost:	rax, rcx, rdx, and the flags that lahf and seto know
 *
 *	rbp+8	return address
 *	rbp	rbp
 *	rbp-8..	rsi rdi r8 r9 r10 r11
 *	rbp-56	flags
 *	rsp	vector registers, from a multiple of 64 on; then mxcsr, twice
 *
 * The word at its start, which the controller fills in, leads to a count of the threads that are inside: their return
 * addresses lie on stacks where nobody looks for them.
 */
#define FLAG_DF 0x400
#define FLAG_AC 0x40000
#define FLAGS -56
#define MASKS 2048

	.section .rodata

	.macro store_masks move
	.irp i, 0, 1, 2, 3, 4, 5, 6, 7
	\move	%k\i, MASKS + 8 * \i(%rsp)
	.endr
	.endm

	.macro load_masks move
	.irp i, 0, 1, 2, 3, 4, 5, 6, 7
	\move	MASKS + 8 * \i(%rsp), %k\i
	.endr
	.endm

	.macro store_low move, kind, width
	.irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\move	%\kind\i, \width * \i(%rsp)
	.endr
	.endm

	.macro load_low move, kind, width
	.irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	\move	\width * \i(%rsp), %\kind\i
	.endr
	.endm

	.macro store_high
	.irp i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovups	%zmm\i, 64 * \i(%rsp)
	.endr
	.endm

	.macro load_high
	.irp i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	vmovups	64 * \i(%rsp), %zmm\i
	.endr
	.endm

	.macro save_none
	.endm
	.macro load_none
	.endm
	.macro save_xmm
	store_low movups, xmm, 16
	.endm
	.macro load_xmm
	load_low movups, xmm, 16
	.endm
	.macro save_ymm
	store_low vmovups, ymm, 32
	.endm
	.macro load_ymm
	load_low vmovups, ymm, 32
	.endm
	.macro save_zmm
	store_low vmovups, zmm, 64
	store_high
	store_masks kmovw
	.endm
	.macro load_zmm
	load_low vmovups, zmm, 64
	load_high
	load_masks kmovw
	.endm
	.macro save_zmm_bw
	store_low vmovups, zmm, 64
	store_high
	store_masks kmovq
	.endm
	.macro load_zmm_bw
	load_low vmovups, zmm, 64
	load_high
	load_masks kmovq
	.endm

	.macro gate name, kind, size
	.balign 16
	.globl \name
\name:
	.quad	0				/* where the count is */
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
