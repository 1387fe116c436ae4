/*
 * marker_forms(void) - one marker per form of argument, with known values in the registers and in
 * the frame. The notes are written by hand: no compiler can be made to choose an operand.
 */
	.macro MARK name, arguments
.Lmark\@:
	nop
	.pushsection .note.stapsdt, "", "note"
	.balign	4
	.4byte	2f - 1f, 4f - 3f, 3
1:	.asciz	"stapsdt"
2:	.balign	4
3:	.8byte	.Lmark\@
	.8byte	_.stapsdt.base
	.8byte	0
	.asciz	"forms"
	.asciz	"\name"
	.asciz	"\arguments"
4:	.balign	4
	.popsection
	.endm

	.text
	.globl	marker_forms
	.type	marker_forms, @function
marker_forms:
	push	%rbp
	mov	%rsp, %rbp
	push	%rbx
	push	%r12
	push	%r15
	sub	$72, %rsp
	movabs	$0x8122334485667788, %rbx
	movabs	$0x8f0e0d0c8b0a8908, %r12
	mov	$0x10, %r15d
	movl	$-77, -32(%rbp)
	movabs	$0x1234567890abcdef, %rax
	mov	%rax, 16(%rsp)
	lea	marker_table(%rip), %rax
	mov	$2, %ecx
	movsd	marker_double(%rip), %xmm0
	movss	marker_float(%rip), %xmm1
	movsd	marker_double(%rip), %xmm15
	movsd	%xmm15, 24(%rsp)
	MARK	words, "8@%rbx -8@%rbx 4@%ebx -4@%ebx 2@%bx -2@%bx 1@%bl -1@%bl 1@%bh"
	MARK	high, "8@%r12 4@%r12d -4@%r12d 2@%r12w -2@%r12w 1@%r12b 8@%ebx"
	MARK	frame, "8@16(%rsp) 4@20(%rsp) -4@-32(%rbp) -2@-32(%rbp) 8@%rcx"
	MARK	memory, "8@(%rax) -8@8(%rax) -8@(%rax,%rcx,8) 4@-16(%rax,%rcx,8) -4@16(,%rcx,8) -2@8(%rax,%rcx)"
	MARK	symbols, "8@marker_table(%rip) -8@8+marker_table(%rip) -4@marker_table+16(%rip) 8@$marker_table 8@%fs:0"
	MARK	constants, "4@$5 -4@$-5 -8@$-9223372036854775808 8@$0xffffffffffffffff 1@$200 -1@$-100 -2@$077"
	MARK	floats, "8f@%xmm0 4f@%xmm1 8f@%xmm15 8f@24(%rsp) 8f@marker_double(%rip) 8@%xmm0"
	MARK	bad, "8@(%r15) 8@no_such_symbol(%rip) 8@%st(1) 16@%rbx 4@%ecx"
	MARK	none, ""
	MARK	old, "%rcx $7"
	add	$72, %rsp
	pop	%r15
	pop	%r12
	pop	%rbx
	pop	%rbp
	ret
	.size	marker_forms, . - marker_forms

	.section .stapsdt.base, "aG", "progbits", .stapsdt.base, comdat
	.weak	_.stapsdt.base
	.hidden	_.stapsdt.base
_.stapsdt.base:
	.space	1
	.size	_.stapsdt.base, 1

	.data
	.balign	8
	.globl	marker_table, marker_double, marker_float
	.type	marker_table, @object
	.size	marker_table, 24
marker_table:
	.8byte	0x1122334455667788, -42, 0xfedcba9876543210
	.type	marker_double, @object
	.size	marker_double, 8
marker_double:
	.double	-2.5
	.type	marker_float, @object
	.size	marker_float, 4
marker_float:
	.float	0.75
	.section .note.GNU-stack, "", @progbits
