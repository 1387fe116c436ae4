/*
 * call_gate.S - calls the user's function (src/shared/call.h) from generated code, and restores
 * every register.
 *
 * The controller doesn't run this code: it copies one variant into the target's code memory
 * (call_code.h). `none` is for functions that are known to use neither vector registers nor errno.
 *
 *	in:	rax = the thread's word in dt_state.calls
 *		rbx = struct dt_call_site
 *		rcx = the image
 *		rdx = the saved registers (record_code.h: flags rbx rdx rcx rax, and at an exit rsi)
 *		rsi = struct dt_return_slot, at an exit
 *	kept:	everything but rax, rcx, rdx, and the flags that lahf and seto save
 *
 *	rbp	struct dt_call_frame, then the return address
 *	rsp	vector registers, from a multiple of 64 on; then mxcsr, twice
 *
 * The controller fills in the word at its start: the offset of errno from the FS base. A thread
 * whose function got a signal continues at the label `resume` (C3).
 */
#include "vectors.h"

#define FLAG_DF 0x400
#define FLAG_AC 0x40000
#define FLAG_OF_SHIFT 11

#define HIT_TRACEPOINT 0
#define HIT_OP 8
#define HIT_REG(n) (16 + 8 * (n))
#define HIT_RIP 144
#define HIT_FLAGS 152
#define FRAME_IMAGE 160
#define FRAME_SP 168
#define FRAME_GUARD 176
#define FRAME_RSI 184
#define FRAME_SITE 192
#define FRAME_ERRNO 200
#define FRAME_FLAGS 208
#define FRAME_SIZE 216

#define SITE_OP 24
#define SITE_SAVED 32
#define SITE_TRACEPOINT 40
#define SITE_IS_EXIT 44
#define SITE_ADDRESS 48

#define SAVED_RSI 40
#define RETURN_RA 0

	.section .rodata

	.macro keep_errno gate
	movq	\gate(%rip), %rsi
	movl	%fs:(%rsi), %esi
	movl	%esi, FRAME_ERRNO(%rbp)
	.endm

	.macro put_errno gate
	movq	\gate(%rip), %rsi
	movl	FRAME_ERRNO(%rbp), %eax
	movl	%eax, %fs:(%rsi)
	.endm

	.macro call_gate name, kind, size
	.balign 64
	.globl \name
\name:
	.quad	0				/* the offset of errno */
	leaq	-FRAME_SIZE(%rsp), %rsp
	movq	%rbp, HIT_REG(5)(%rsp)
	movq	%rsp, %rbp
	movq	%rsi, HIT_REG(6)(%rbp)
	movq	%rsi, FRAME_RSI(%rbp)
	movq	%rdi, HIT_REG(7)(%rbp)
	movq	%r8, HIT_REG(8)(%rbp)
	movq	%r9, HIT_REG(9)(%rbp)
	movq	%r10, HIT_REG(10)(%rbp)
	movq	%r11, HIT_REG(11)(%rbp)
	movq	%r12, HIT_REG(12)(%rbp)
	movq	%r13, HIT_REG(13)(%rbp)
	movq	%r14, HIT_REG(14)(%rbp)
	movq	%r15, HIT_REG(15)(%rbp)
	movq	%rcx, FRAME_IMAGE(%rbp)
	movq	%rax, FRAME_GUARD(%rbp)
	movq	%rbx, FRAME_SITE(%rbp)
	movq	SITE_ADDRESS(%rbx), %r8
	movq	%r8, HIT_RIP(%rbp)
	cmpl	$0, SITE_IS_EXIT(%rbx)
	jne	7f
1:	movq	32(%rdx), %rsi
	movq	%rsi, HIT_REG(0)(%rbp)
	movq	24(%rdx), %rsi
	movq	%rsi, HIT_REG(1)(%rbp)
	movq	16(%rdx), %rsi
	movq	%rsi, HIT_REG(2)(%rbp)
	movq	8(%rdx), %rsi
	movq	%rsi, HIT_REG(3)(%rbp)
	movl	SITE_SAVED(%rbx), %esi
	addq	%rdx, %rsi
	movq	%rsi, HIT_REG(4)(%rbp)
	movzbl	1(%rdx), %esi			/* as lahf gave them */
	movzbl	(%rdx), %edi
	shll	$FLAG_OF_SHIFT, %edi
	orl	%edi, %esi
	movq	%rsi, HIT_FLAGS(%rbp)
	leaq	SITE_TRACEPOINT(%rbx), %rsi
	movq	%rsi, HIT_TRACEPOINT(%rbp)
	movq	SITE_OP(%rbx), %rsi
	movq	%rsi, HIT_OP(%rbp)
	pushfq
	popq	%rsi
	movq	%rsi, FRAME_FLAGS(%rbp)
	testl	$(FLAG_DF | FLAG_AC), %esi
	jnz	3f
2:	subq	$\size, %rsp
	.ifc \kind, none
	andq	$-16, %rsp
	.else
	andq	$-64, %rsp
	save_\kind
	stmxcsr	(\size - 64)(%rsp)
	keep_errno \name
	.endif
	movq	%rsp, FRAME_SP(%rbp)
	movq	%rbp, (%rax)			/* inside: C1 */
	movq	%rbp, %rdi
	call	*(%rbx)
	.globl \name\()_resume
\name\()_resume:
	.ifnc \kind, none
	put_errno \name
	stmxcsr	(\size - 60)(%rsp)
	movl	(\size - 64)(%rsp), %eax
	cmpl	%eax, (\size - 60)(%rsp)
	jne	4f
5:	load_\kind
	.endif
	movq	FRAME_GUARD(%rbp), %rax
	movq	$0, (%rax)			/* outside: C1 */
	testl	$(FLAG_DF | FLAG_AC), FRAME_FLAGS(%rbp)
	jnz	6f
8:	movq	FRAME_RSI(%rbp), %rsi
	movq	HIT_REG(7)(%rbp), %rdi
	movq	HIT_REG(8)(%rbp), %r8
	movq	HIT_REG(9)(%rbp), %r9
	movq	HIT_REG(10)(%rbp), %r10
	movq	HIT_REG(11)(%rbp), %r11
	movq	%rbp, %rsp
	movq	HIT_REG(5)(%rsp), %rbp
	leaq	FRAME_SIZE(%rsp), %rsp
	ret
3:	pushfq
	andq	$~(FLAG_DF | FLAG_AC), (%rsp)
	popfq
	jmp	2b
	.ifnc \kind, none
4:	ldmxcsr	(\size - 64)(%rsp)
	jmp	5b
	.endif
6:	pushq	FRAME_FLAGS(%rbp)
	popfq
	jmp	8b
7:	movq	RETURN_RA(%rsi), %r8
	movq	%r8, HIT_RIP(%rbp)
	movq	SAVED_RSI(%rdx), %rsi
	movq	%rsi, HIT_REG(6)(%rbp)
	jmp	1b
	.globl \name\()_end
\name\()_end:
	.endm

	call_gate call_gate_none, none, 0
	call_gate call_gate_xmm, xmm, 320
	call_gate call_gate_ymm, ymm, 576
	call_gate call_gate_zmm, zmm, 2176
	call_gate call_gate_zmm_bw, zmm_bw, 2176

	.section .note.GNU-stack, "", @progbits
