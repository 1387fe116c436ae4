/*
 * loads.S - plain loads whose faults are mended (signals/loads.h): the thread goes on behind the
 * load, which each of these functions notices.
 */
#include "routine.h"

	.text

/* bool loads_word(uint64_t address, uint64_t *ret_word) */
	begin	loads_word, 16
	xorl	%eax, %eax
	label	loads_word_at
	movq	(%rdi), %rcx
	movq	%rcx, (%rsi)
	movl	$1, %eax
	label	loads_word_fixed
	ret
	end	loads_word

/* uint64_t loads_copy(void *to, uint64_t from, uint64_t count) */
	begin	loads_copy, 16
	movq	%rdx, %rcx
	label	loads_copy_at
	rep movsb
	label	loads_copy_fixed
	movq	%rcx, %rax
	ret
	end	loads_copy

/* For loads_mend; with those of reads.S. */
	.section .rodata
	.balign	4
	.macro	mends at, fixed
	.long	\at - loads_mends, \fixed - loads_mends
	.endm

	label	loads_mends
	mends	loads_word_at, loads_word_fixed
	mends	loads_copy_at, loads_copy_fixed
	mends	reads_text_at, reads_text_fixed
	mends	reads_text_put_at, reads_text_fixed
	mends	reads_text_byte_at, reads_text_fixed
	mends	reads_bytes_at, reads_bytes_fixed
	mends	reads_bytes_put_at, reads_bytes_fixed
	mends	reads_bytes_byte_at, reads_bytes_fixed
	.long	0

	.section .note.GNU-stack, "", @progbits
