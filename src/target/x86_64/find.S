/*
 * find.S - dt_find: from the hook in an unwinder (codegen/find_code.h) to find_table and back.
 *
 *	in:	rdi, rsi = arguments of _Unwind_Find_FDE; rbx = address of struct dt_control
 *	out:	rax = its result; 0: not for code of dyntrace, ask about rdi, which may have changed
 *	kept:	every other register but rcx, rdx and the flags
 */
	.text
	.globl dt_find
	.type dt_find, @function
	.balign 64
dt_find:
	.cfi_startproc
	.irp reg, rsi, rdi, r8, r9, r10, r11
	pushq	%\reg
	.cfi_adjust_cfa_offset 8
	.endr
	movq	%rsi, %rdx
	leaq	32(%rsp), %rsi			/* the saved rdi */
	movq	%rbx, %rdi
	call	find_table
	.irp reg, r11, r10, r9, r8, rdi, rsi
	popq	%\reg
	.cfi_adjust_cfa_offset -8
	.endr
	ret
	.cfi_endproc
	.size dt_find, . - dt_find

	.section .note.GNU-stack, "", @progbits
