/*
 * variants.S - the trampoline's fast path written by hand, once for each design choice.
 *
 * Each PROBE makes a function whose first instruction is replaced by a 5-byte jump to a
 * trampoline, as a real probe does, and a loop that calls it. What differs is given by name:
 *
 *   save    how rax, rcx, rdx, rbx and the flags are kept:
 *             push     push x 4, then seto+lahf and a fifth push
 *             reg      push x 5, the flags in r8
 *             redzone  mov [rsp-x]: only where the red zone is dead, that is at a function's entry
 *             skip     as push, below the red zone: what a probe inside a function needs
 *             popf     push x 4, pushf/popf
 *   tid     compare the tid in the thread block with the slot's
 *   gap     compare now - last with 2^39
 *   last    store the clock of this event in the slot
 *   events  count the event in the slot
 *   xchg    reserve by cmpxchg; 0: by a plain store, which a signal can break
 *   switch  none; jmp (jmp [rip+pointer]); cmp (after the flags are saved); cx (movzx ecx + jrcxz,
 *           which needs no flags); code (a jump written over the trampoline's first bytes)
 *   off     the switch says off
 *   args    six payload words behind the header
 *   pending store the header first with PENDING, and again when the payload is there
 *   shared  the part from the slot to the event's address is a routine that the trampoline calls
 *
 * Registers in a trampoline: rcx the slot, rdx the clock, rbx the reserve word, rax the old one.
 */
#include "offsets.h"

	.intel_syntax noprefix
	.text

/* The displaced instruction is the same everywhere, and five bytes long. */
.macro DISPLACED
	mov	eax, 1
.endm

.macro SAVE how
.ifc \how, redzone
	mov	[rsp - 8], rax
	mov	[rsp - 16], rcx
	mov	[rsp - 24], rdx
	mov	[rsp - 32], rbx
	seto	al
	lahf
	mov	[rsp - 40], rax
.else
.ifc \how, skip
	lea	rsp, [rsp - 128]
.endif
	push	rax
	push	rcx
	push	rdx
	push	rbx
.ifc \how, popf
	pushfq
.else
.ifc \how, reg
	push	r8
	seto	al
	lahf
	mov	r8d, eax
.else
	seto	al
	lahf
	push	rax
.endif
.endif
.endif
.endm

.macro RESTORE how
.ifc \how, redzone
	mov	rax, [rsp - 40]
	add	al, 0x7f
	sahf
	mov	rbx, [rsp - 32]
	mov	rdx, [rsp - 24]
	mov	rcx, [rsp - 16]
	mov	rax, [rsp - 8]
.else
.ifc \how, popf
	popfq
.else
.ifc \how, reg
	mov	eax, r8d
	pop	r8
.else
	pop	rax
.endif
	add	al, 0x7f
	sahf
.endif
	pop	rbx
	pop	rdx
	pop	rcx
	pop	rax
.ifc \how, skip
	lea	rsp, [rsp + 128]
.endif
.endif
.endm

/* Where rdx and rcx of the program were saved. */
.macro SAVED_RDX how, to
.ifc \how, redzone
	mov	\to, [rsp - 24]
.else
	mov	\to, [rsp + 16]
.endif
.endm
.macro SAVED_RCX how, to
.ifc \how, redzone
	mov	\to, [rsp - 16]
.else
	mov	\to, [rsp + 24]
.endif
.endm

/*
 * for (n = rdi; n; n--) foo(1, 2, 3, 4, 5, 6): once with nothing else to do, where the probe's
 * other instructions hide behind its rdtsc, and once between 96 instructions that keep the
 * arithmetic units busy, where they don't.
 */
.macro LOOP name, busy, label
	.p2align 6
	.globl	\label
\label:
	push	rbp
	mov	rbp, rdi
	mov	edi, 1
	mov	esi, 2
	mov	edx, 3
	mov	ecx, 4
	mov	r8d, 5
	mov	r9d, 6
1:	call	foo_\name
.if \busy
.rept 24
	add	r10, 1
	add	r11, 1
	add	rsi, 1
	add	r9, 1
.endr
.endif
	dec	rbp
	jnz	1b
	pop	rbp
	ret
.endm

.macro LOOPS name
	LOOP	\name, 0, floor_\name
	LOOP	\name, 1, busy_\name
.endm

.macro PROBE name, save=push, tid=1, gap=1, last=1, events=1, xchg=1, switch=none, off=0, args=0, pending=1, shared=0
	.set	size_\name, 8 + 48 * \args

	/* the probed function */
	.p2align 6
	.globl	foo_\name
foo_\name:
	.byte	0xe9
	.long	tramp_\name - . - 4
rest_\name:
	lea	eax, [rax + rdi]
	ret

	LOOPS	\name

	.p2align 6
tramp_\name:
.ifc \switch, jmp
	jmp	qword ptr [rip + switch_\name]
on_\name:
.endif
.ifc \switch, code
.if \off
	jmp	off_\name
.else
	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
.endif
.endif
.ifc \switch, cx
	mov	[rsp - 16], rcx
	movzx	ecx, byte ptr [rip + switch_\name]
	jrcxz	offcx_\name
	mov	rcx, [rsp - 16]
	jmp	oncx_\name
offcx_\name:
	mov	rcx, [rsp - 16]
	jmp	off_\name
oncx_\name:
.endif
	SAVE	\save
.ifc \switch, cmp
	cmp	byte ptr [rip + switch_\name], 0
	je	restore_\name
.endif
.if \shared
	call	routine_\name
	.text	1
	.p2align 6
routine_\name:
.endif
	/* the slot */
	rdfsbase rbx
	imul	rcx, rbx, HASH_MULTIPLIER
	shr	rcx, HASH_SHIFT
	and	ecx, HASH_MASK
	movabs	rdx, offset floor_state + STATE_SLOTS
	add	rcx, rdx
	not	rbx
	cmp	[rcx + SLOT_KEY], rbx
	jne	stray_\name
.if \tid
	mov	rdx, [rcx + SLOT_TID_OFFSET]
	mov	edx, fs:[rdx]
	cmp	edx, [rcx + SLOT_TID]
	jne	stray_\name
.endif
	/* reserve */
retry_\name:
	mov	rbx, [rcx + SLOT_RESERVE]
	rdtsc
	shl	rdx, 32
	or	rdx, rax
.if \gap
	mov	rax, rdx
	sub	rax, [rcx + SLOT_LAST]
	shr	rax, GAP_SHIFT
	jne	slow_\name
.endif
	mov	rax, rbx
	add	rbx, size_\name
	cmp	ebx, [rcx + SLOT_LIMIT]
	ja	slow_\name
.if \xchg
	cmpxchg	[rcx + SLOT_RESERVE], rbx
	jne	retry_\name
.else
	mov	[rcx + SLOT_RESERVE], rbx
.endif
.if \last
	mov	[rcx + SLOT_LAST], rdx
.endif
.if \events
	inc	dword ptr [rcx + SLOT_EVENTS]
.endif
	/* write; rbx becomes the address behind the event */
	shl	rdx, 24
	mov	ebx, ebx
	movabs	rax, offset floor_pool
	add	rbx, rax
.if \shared
	ret
	.text	0
.endif
.if \args
.if \pending
	or	rdx, PENDING + 7
	mov	[rbx - size_\name], rdx
.else
	or	rdx, 7
.endif
	mov	[rbx - 48], rdi
	mov	[rbx - 40], rsi
	SAVED_RDX \save, rax
	mov	[rbx - 32], rax
	SAVED_RCX \save, rax
	mov	[rbx - 24], rax
	mov	[rbx - 16], r8
	mov	[rbx - 8], r9
.if \pending
	xor	rdx, PENDING
.endif
.else
	or	rdx, 7
.endif
	mov	[rbx - size_\name], rdx
restore_\name:
	RESTORE	\save
off_\name:
	DISPLACED
	jmp	rest_\name
slow_\name:
	call	slow
	jmp	retry_\name
stray_\name:
	ud2

	.data
	.p2align 6
.ifc \switch, jmp
.if \off
switch_\name: .quad off_\name
.else
switch_\name: .quad on_\name
.endif
.else
switch_\name: .byte 1 - \off
.endif
	.text
.endm

/* A new chunk for the slot in rcx; keeps every register but rax, rdx, rbx. */
slow:
	lea	rsp, [rsp - 128]
	push	rcx
	push	rsi
	push	rdi
	push	r8
	push	r9
	push	r10
	push	r11
	mov	rdi, rcx
	call	floor_next_chunk
	pop	r11
	pop	r10
	pop	r9
	pop	r8
	pop	rdi
	pop	rsi
	pop	rcx
	lea	rsp, [rsp + 128]
	ret

/*
 * long floor_changes(void (*foo)(void), long flags): calls foo with a value in each register and those
 * flags; returns how many of them it changed, rax apart, which is the result.
 */
	.globl	floor_changes
floor_changes:
	push	rbp
	push	rbx
	push	r12
	push	r13
	push	r14
	push	r15
	mov	[rip + changes_foo], rdi
	mov	[rip + changes_flags], rsi
	.set	value, 0x1001
.irp r, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
	mov	\r, value
	.set	value, value + 0x1001
.endr
	push	[rip + changes_flags]
	popfq
	call	[rip + changes_foo]
	pushfq
	pop	rax
	cmp	rax, [rip + changes_flags]
	setne	al
	movzx	eax, al
	.set	value, 0x1001
.irp r, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
	cmp	\r, value
	je	1f
	inc	rax
1:
	.set	value, value + 0x1001
.endr
	pop	r15
	pop	r14
	pop	r13
	pop	r12
	pop	rbx
	pop	rbp
	ret
	.lcomm	changes_foo, 8
	.lcomm	changes_flags, 8

/* The function with no probe in it. */
	.p2align 6
	.globl	foo_none
foo_none:
	DISPLACED
	lea	eax, [rax + rdi]
	ret

	LOOPS	none

	.p2align 6
	.globl	floor_rdtsc, busy_rdtsc
floor_rdtsc:
busy_rdtsc:
1:	rdtsc
	dec	rdi
	jnz	1b
	ret

/* What a detour costs that does nothing. */
	LOOPS	detour
	.p2align 6
	.globl	foo_detour
foo_detour:
	.byte	0xe9
	.long	tramp_detour - . - 4
rest_detour:
	lea	eax, [rax + rdi]
	ret
	.p2align 6
tramp_detour:
	DISPLACED
	jmp	rest_detour

	PROBE	push
	PROBE	reg, save=reg
	PROBE	redzone, save=redzone
	PROBE	skip, save=skip
	PROBE	popf, save=popf
	PROBE	noevents, events=0
	PROBE	notid, tid=0
	PROBE	nogap, gap=0
	PROBE	nolast, gap=0, last=0
	PROBE	noxchg, xchg=0
	PROBE	lean, save=redzone, events=0, tid=0
	PROBE	jmp_on, switch=jmp
	PROBE	jmp_off, switch=jmp, off=1
	PROBE	cmp_on, switch=cmp
	PROBE	cmp_off, switch=cmp, off=1
	PROBE	cx_on, switch=cx
	PROBE	cx_off, switch=cx, off=1
	PROBE	code_on, switch=code
	PROBE	code_off, switch=code, off=1
	PROBE	rz_cmp_on, save=redzone, switch=cmp
	PROBE	rz_cmp_off, save=redzone, switch=cmp, off=1
	PROBE	rz_jmp_on, save=redzone, switch=jmp
	PROBE	args, args=1
	PROBE	args_final, args=1, pending=0
	PROBE	args_redzone, args=1, save=redzone
	PROBE	args_rz_final, args=1, save=redzone, pending=0
	PROBE	args_jmp, args=1, switch=jmp
	PROBE	shared, switch=jmp, shared=1
	PROBE	args_shared, args=1, switch=jmp, shared=1

	.section .note.GNU-stack, "", @progbits
