/*
 * load_stub.S - make the target's loader open or close a library, and keep its message.
 *
 * This code doesn't run in the controller, which copies it into the target's code memory (load.c)
 * and calls it there at a safe point: dlerror must run on the thread whose dlopen failed.
 *
 *	in:	rdi = struct load_request, rsi = struct dt_load
 */
#define REQUEST_DLOPEN 0
#define REQUEST_DLCLOSE 8
#define REQUEST_DLERROR 16
#define REQUEST_PATH 24
#define REQUEST_FLAGS 32
#define REQUEST_HANDLE 40
#define LOAD_HANDLE 0
#define LOAD_WHY 8
#define WHY_LAST 239

	.section .rodata
	.balign 16
	.globl load_stub
load_stub:
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	movq	%rdi, %rbx
	movq	%rsi, %r12
	movq	REQUEST_HANDLE(%rbx), %rdi
	testq	%rdi, %rdi
	jnz	1f
	movq	REQUEST_PATH(%rbx), %rdi
	movq	REQUEST_FLAGS(%rbx), %rsi
	call	*REQUEST_DLOPEN(%rbx)
	jmp	2f
1:	call	*REQUEST_DLCLOSE(%rbx)
	testl	%eax, %eax
	sete	%al
	movzbl	%al, %eax
2:	movb	$0, LOAD_WHY(%r12)
	movq	%rax, LOAD_HANDLE(%r12)
	testq	%rax, %rax
	jnz	4f
	call	*REQUEST_DLERROR(%rbx)
	testq	%rax, %rax
	jz	4f
	xorl	%ecx, %ecx
3:	movb	(%rax, %rcx), %dl
	movb	%dl, LOAD_WHY(%r12, %rcx)
	testb	%dl, %dl
	jz	4f
	incl	%ecx
	cmpl	$WHY_LAST, %ecx
	jb	3b
	movb	$0, LOAD_WHY(%r12, %rcx)
4:	popq	%r13
	popq	%r12
	popq	%rbx
	ret
	.globl load_stub_end
load_stub_end:

	.section .note.GNU-stack, "", @progbits
