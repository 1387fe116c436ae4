/*
 * vectors.h - macros for gates in assembly (foreign_gate.S, call_gate.S): save_KIND stores vector
 * registers from rsp on, load_KIND loads them again. zmm: 2112 bytes, the mask registers last.
 */
#define MASKS 2048

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

