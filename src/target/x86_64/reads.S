/*
 * reads.S - the routines of trampolines that read the program's memory and write the event
 * themselves (src/shared/reads.h has the contract). None makes a system call.
 *
 * (X7) Trampolines count their thread as loading (dt_own_stack.loading), and then look whether it
 * may load, without a fence in between: that would cost a fifth of a hit or more. So whoever
 * forbids loads changes dt_state.loads first, and looks for threads that load after a pause, in
 * which the stores of other processors have reached memory (loads_await; own_probes/fronts.c).
 */
#include "routine.h"
#include "target/agent_parts.h"
#include "shared/reads.h"

#define PAGE_SHIFT 12
#define PAGE_MASK 0xfff
#define PAGES_MASK 0x3ff
#define OPENED_START 0x2000 /* behind the table: struct dt_opened */
#define OPENED_SIZE 0x2008
#define CHUNK 16
#define HEAD 16
#define ID_BITS 24
#define PENDING 0x800000
#define GAP_SHIFT 39

/* The end of the page of address \at, if it is known, else 0 or the end of another page. */
	.macro	known_end at, to, to32
	movq	\at, \to
	shrq	$PAGE_SHIFT, \to
	andl	$PAGES_MASK, \to32
	movq	(%rbx, \to, 8), \to
	.endm

/* Jumps to \no unless the address is in memory that is known as a whole (X15). Changes \by. */
	.macro	check_opened at, by, no
	movq	\at, \by
	subq	OPENED_START(%rbx), \by
	cmpq	OPENED_SIZE(%rbx), \by
	jae	\no
	.endm

	.text
/* Saves xmm0 and xmm1 below the stack. rsi = the end of known memory from r10 on, xmm1 = 0. Jumps
 * to \no if nothing is known. Changes r11. */
	.macro	begin_text no
	movups	%xmm0, -24(%rsp)
	movups	%xmm1, -40(%rsp)
	pxor	%xmm1, %xmm1
	known_end %r10, %rsi, %esi
	movq	%rsi, %r11
	subq	%r10, %r11
	decq	%r11
	cmpq	$PAGE_MASK, %r11
	jbe	.Lbegun\@
	check_opened %r10, %r11, \no
	movq	%r10, %rsi
	orq	$PAGE_MASK, %rsi
	incq	%rsi
.Lbegun\@:
	.endm

/* Jumps to \few unless CHUNK bytes from r10 on are on its page. At that page's end rsi moves on to
 * the end of the next page; jumps to \no if that isn't known. Changes rax and r11. */
	.macro	know_chunk few, no
	leaq	CHUNK(%r10), %r11
	cmpq	%rsi, %r11
	jbe	.Lknown\@
	cmpq	%rsi, %r10
	jb	\few				/* the next page isn't touched (X14) */
	known_end %rsi, %rax, %eax
	leaq	PAGE_MASK + 1(%rsi), %r11
	cmpq	%r11, %rax
	je	.Lnext\@
	check_opened %rsi, %rax, \no
.Lnext\@:
	movq	%r11, %rsi
.Lknown\@:
	.endm

/* Copies CHUNK bytes. r11 = a bit per byte that isn't 1 to 127, which are copied as they are. */
	.macro	copy_chunk at
	label	\at\()_at
	movdqu	(%r10), %xmm0
	label	\at\()_put_at			/* with the alignment check on (H2) */
	movdqu	%xmm0, (%r9)
	pcmpgtb	%xmm1, %xmm0
	pmovmskb %xmm0, %r11d
	xorl	$0xffff, %r11d
	.endm

/* Copies a byte to r9, up to the end of its page. al = the byte, with flags; jumps to \next at that
 * end. */
	.macro	copy_byte at, next
	cmpq	%rsi, %r10
	jae	\next
	label	\at\()_byte_at
	movb	(%r10), %al
	movb	%al, (%r9)
	testb	%al, %al
	.endm

	.macro	end_text
	movups	-24(%rsp), %xmm0
	movups	-40(%rsp), %xmm1
	.endm

	begin	dt_read_text, 64, 0
	testq	%r10, %r10
	jz	.Lnull
	begin_text .Lno_text
.Ltext:
	know_chunk .Ltext_byte, .Lno_text
	copy_chunk reads_text
	jnz	.Ltext_found
	addq	$CHUNK, %r10
	addq	$CHUNK, %r9
	subl	$CHUNK, %edi
	jns	.Ltext
	jmp	.Lno_text			/* too long */
.Ltext_found:
	bsfl	%r11d, %r11d
	cmpl	%edi, %r11d
	jg	.Lno_text			/* too long */
	addq	%r11, %r9
	cmpb	$0, (%r9)
	jne	.Lno_text			/* not ASCII */
.Ltext_end:
	incq	%r9
	end_text
	stc
	ret
.Ltext_byte:
	copy_byte reads_text, .Ltext
	jz	.Ltext_end
	js	.Lno_text
	incq	%r10
	incq	%r9
	decl	%edi
	jns	.Ltext_byte
	label	reads_text_fixed
.Lno_text:
	end_text
	clc
	ret
/* "(null)", as text.c has it, and a NUL, byte by byte (H2); done. */
.Lnull:
	.irp	byte, '(', 'n', 'u', 'l', 'l', ')', 0
	movb	$\byte, (%r9)
	incq	%r9
	.endr
	stc
	ret
	end	dt_read_text

	begin	dt_read_bytes, 64, 0
	testq	%rsi, %rsi
	jz	.Lbytes_none
	testq	%r10, %r10
	jz	.Lnull
	cmpq	%rdi, %rsi
	ja	.Ltoo_long
	movl	%esi, %edi
	begin_text .Lno_bytes
.Lbytes:
	know_chunk .Lbytes_byte, .Lno_bytes
	copy_chunk reads_bytes
	cmpl	$CHUNK, %edi
	jb	.Lbytes_part
	testl	%r11d, %r11d
	jnz	.Lno_bytes
	addq	$CHUNK, %r10
	addq	$CHUNK, %r9
	subl	$CHUNK, %edi
	jnz	.Lbytes
	jmp	.Lbytes_end
.Lbytes_part:
	movl	%edi, %ecx
	movl	$-1, %eax
	shll	%cl, %eax
	notl	%eax
	testl	%eax, %r11d
	jnz	.Lno_bytes
	addq	%rdi, %r9
.Lbytes_end:
	end_text
.Lbytes_none:
	movb	$0, (%r9)
	incq	%r9
	stc
	ret
.Lbytes_byte:
	copy_byte reads_bytes, .Lbytes
	jle	.Lno_bytes
	incq	%r10
	incq	%r9
	decl	%edi
	jnz	.Lbytes_byte
	jmp	.Lbytes_end
	label	reads_bytes_fixed
.Lno_bytes:
	end_text
.Ltoo_long:
	clc
	ret
	end	dt_read_bytes

	begin	dt_read_end, 64, 0
	movl	%edi, %ecx
	subq	%r11, %r9
	addq	$HEAD, %r9			/* its size up to the last field */
	leaq	7(%r9), %rdi
	andq	$-8, %rdi			/* the room that it takes */
.Lreserve:
	movq	SLOT_RESERVE(%r8), %rsi		/* before the clock: B3 */
	rdtsc
	shlq	$32, %rdx
	orq	%rax, %rdx
	movq	%rdx, %r10
	subq	SLOT_LAST(%r8), %r10
	shrq	$GAP_SHIFT, %r10		/* a gap or a step back: B6 */
	jnz	.Lno_room
	movq	%rsi, %rax
	addq	%rdi, %rsi
	cmpl	SLOT_LIMIT(%r8), %esi
	ja	.Lno_room
	cmpxchgq %rsi, SLOT_RESERVE(%r8)	/* B2 */
	jne	.Lreserve
	movq	%rdx, SLOT_LAST(%r8)
	incl	SLOT_EVENTS(%r8)
	movl	%esi, %esi
	addq	%rbx, %rsi			/* the event's end */
	movq	%rsi, %r8
	subq	%rdi, %r8
	shlq	$ID_BITS, %rdx
	orq	%rcx, %rdx
	leaq	PENDING(%rdx), %rax
	movq	%rax, (%r8)			/* B4 */
	movq	%r9, 8(%r8)
	leaq	HEAD(%r8), %rdi
	subq	$8, %rsi			/* its last word */
	cmpq	%rsi, %rdi
	ja	.Lcomplete
	je	.Llast
.Lcopy:
	movq	(%r11), %rax
	movq	%rax, (%rdi)
	addq	$8, %r11
	addq	$8, %rdi
	cmpq	%rsi, %rdi
	jne	.Lcopy
.Llast:
	xorl	%ecx, %ecx
	subl	%r9d, %ecx
	andl	$7, %ecx
	shll	$3, %ecx			/* bits beyond the last field */
	movq	$-1, %rax
	shrq	%cl, %rax
	andq	(%r11), %rax
	movq	%rax, (%rdi)
.Lcomplete:
	movq	%rdx, (%r8)
	stc
	ret
.Lno_room:
	clc
	ret
	end	dt_read_end

	.section .note.GNU-stack, "", @progbits
