/*
 * Functions whose instructions are hard to move; forms.c calls them. STRAIGHT: every instruction runs
 * once per call. Functions are packed: each is followed at once by the next one, unless a comment
 * mentions padding.
 */
	.intel_syntax noprefix
	.text

	.macro FUNCTION name
	.globl \name
	.type \name, @function
\name:
	.endm
	.macro END name
	.size \name, . - \name
	.endm

	.balign 64
/* one to four bytes, nothing between them */
FUNCTION packed_1
	ret
END packed_1
FUNCTION packed_2
	rep ret
END packed_2
FUNCTION packed_3
	push rdi
	pop rax
	ret
END packed_3
FUNCTION packed_4
	lea eax, [rdi]
	nop
	ret
END packed_4
/* the same with padding */
	.balign 16, 0xcc
FUNCTION padded_1
	ret
END padded_1
	.balign 16
FUNCTION padded_3
	mov eax, edi
	ret
END padded_3
	.balign 16, 0xcc

/* what the callee pops is the address behind the call */
FUNCTION pops_pc
	call 1f
1:	pop rax
	lea rcx, [rip + 1b]
	sub rax, rcx
	add rax, 7
	ret
END pops_pc
FUNCTION calls_register
	lea rax, [rip + packed_3]
	push rbx
	call rax
	pop rbx
	ret
END calls_register

FUNCTION counted
	mov ecx, 5
	xor eax, eax
1:	add eax, ecx
	loop 1b
	jrcxz 2f
	ud2
2:	mov ecx, 3
3:	add eax, 1
	cmp eax, 100
	loopne 3b
	ret
END counted
/* to its own first instruction */
FUNCTION loops_to_start
	dec edi
	jns loops_to_start
	mov eax, edi
	ret
END loops_to_start

FUNCTION locked
	lea rdx, [rip + forms_word]
	mov eax, 1
	lock xadd [rdx], rax
	lock add dword ptr [rip + forms_word], 2
	lock inc qword ptr [rdx]
	mov ecx, 5
	lock cmpxchg [rip + forms_word], rcx
	xchg rax, [rdx]
	mov qword ptr [rip + forms_word], 0x1234
	ret
END locked

FUNCTION strings
	lea rsi, [rip + forms_text]
	lea rdi, [rip + forms_buffer]
	mov ecx, 32
	rep movsb
	lea rdi, [rip + forms_buffer]
	mov al, 'q'
	mov ecx, 32
	repne scasb
	mov r8d, ecx
	lea rsi, [rip + forms_text]
	lea rdi, [rip + forms_buffer]
	mov ecx, 32
	repe cmpsb
	lodsw
	movzx eax, ax
	lea rdi, [rip + forms_buffer + 64]
	mov ecx, 4
	rep stosq
	add eax, r8d
	add eax, ecx
	ret
END strings

/* memset(rdi, 0x5a, rsi), for a signal to come amid it */
FUNCTION fills
	mov rcx, rsi
	mov al, 0x5a
	rep stosb
	mov rax, rcx
	ret
END fills

/* flags that live over other instructions, in both directions */
FUNCTION flags
	xor eax, eax
	stc
	mov edx, 10
	adc eax, edx
	cmp edi, -1
	lea rcx, [rip + forms_word]
	setne dl
	mov r8, [rcx]
	sbb eax, 0
	mov r9d, 0x7fffffff
	add r9d, 1
	push rbx
	pop rbx
	seto cl
	movzx ecx, cl
	pushfq
	pop r10
	and r10d, 0x8d5
	std
	nop dword ptr [rax + rax]
	cld
	add eax, ecx
	add eax, r10d
	cmc
	adc eax, 0
	ret
END flags

/* data below the stack pointer: all 128 bytes */
FUNCTION red_zone
	mov [rsp - 8], rdi
	mov qword ptr [rsp - 128], 77
	mov rdi, 0
	mov dword ptr [rsp - 64], 5
	mov rax, [rsp - 8]
	add rax, [rsp - 128]
	add eax, [rsp - 64]
	ret
END red_zone

FUNCTION table
	endbr64
	mov eax, edi
	and eax, 3
	lea rdx, [rip + 9f]
	movsxd rax, dword ptr [rdx + rax * 4]
	add rax, rdx
	notrack jmp rax
1:	mov eax, 1
	ret
2:	mov al, 2
3:	movzx eax, al
	ret
4:	mov al, 4
	jmp 3b
	.section .rodata
	.balign 4
9:	.long 1b - 9b, 2b - 9b, 1b - 9b, 4b - 9b
	.text
END table

FUNCTION prefixes
	endbr64
	.byte 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0	/* a nop of 11 */
	mov rax, fs:0
	xor eax, eax
	.byte 0x3e, 0x8d, 0x47, 0x01		/* ds: lea eax, [rdi + 1] */
	addr32 lea eax, [edi + 2]
	.byte 0x66, 0x90
	movbe ecx, [rip + forms_word]
	bswap ecx
	add eax, ecx
	cmp dword ptr [rip + forms_word], 0x1234
	sete cl
	add al, cl
	ret
END prefixes

FUNCTION avx
	vmovdqu ymm1, [rip + forms_text]
	vpaddd ymm2, ymm1, [rip + forms_text]
	vpblendd ymm3, ymm2, [rip + forms_text], 0x5a
	vextracti128 xmm4, ymm3, 1
	vpxor xmm5, xmm4, xmm3
	vmovd eax, xmm5
	vzeroupper
	ret
END avx

FUNCTION avx512
	mov ecx, 0x5a5a
	kmovw k1, ecx
	vmovdqu32 zmm17, [rip + forms_text]
	vpaddd zmm18{k1}{z}, zmm17, dword ptr [rip + forms_text]{1to16}
	vpternlogd zmm18, zmm17, [rip + forms_text], 0x96
	vextracti32x4 xmm1, zmm18, 3
	vmovd eax, xmm1
	vzeroupper
	ret
END avx512

#ifdef WITH_SYSCALLS /* apart: a module with system calls of its own takes no trap (H10) */
/* getppid */
FUNCTION asks_kernel
	mov eax, 110
	syscall
	test eax, eax
	setg al
	movzx eax, al
	ret
END asks_kernel

/* read(edi, rsi, edx), for a thread that blocks in it */
FUNCTION blocks
	xor eax, eax
	syscall
	nop
	ret
END blocks
#endif

	.data
	.balign 64
forms_text:
	.ascii "the quick brown fox jumps over the lazy dog, and then it sleeps all day long"
	.balign 64
forms_word:
	.quad 0x1234
	.balign 64
forms_buffer:
	.skip 192
	.section .note.GNU-stack, "", @progbits
