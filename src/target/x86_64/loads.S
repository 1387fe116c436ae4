/*
 * loads.S - plain loads whose faults are mended (signals/loads.h): the thread goes on behind the
 * load, which each of these functions notices.
 */
	.text

/* A load and the way on from its fault, for loads_mend: NAME_at and NAME_fixed. */
	.macro	label name
	.globl	\name
	.hidden	\name
\name:
	.endm

	.macro	begin name
	.balign	16
	.type	\name, @function
	label	\name
	.cfi_startproc
	.endm

	.macro	end name
	.cfi_endproc
	.size	\name, . - \name
	.endm

/* bool loads_word(uint64_t address, uint64_t *ret_word) */
	begin	loads_word
	xorl	%eax, %eax
	label	loads_word_at
	movq	(%rdi), %rcx
	movq	%rcx, (%rsi)
	movl	$1, %eax
	label	loads_word_fixed
	ret
	end	loads_word

/* uint64_t loads_copy(void *to, uint64_t from, uint64_t count) */
	begin	loads_copy
	movq	%rdx, %rcx
	label	loads_copy_at
	rep movsb
	label	loads_copy_fixed
	movq	%rcx, %rax
	ret
	end	loads_copy

	.section .note.GNU-stack, "", @progbits
