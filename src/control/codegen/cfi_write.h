/*
 * cfi_write.h - pieces of .eh_frame, written with an emitter. Addresses are absolute.
 */
#ifndef DYNTRACE_CFI_WRITE_H
#define DYNTRACE_CFI_WRITE_H

#include "control/code/emit.h"

enum cfi_register {
	CFI_RBX = 3,
	CFI_RSP = 7,
	CFI_RA = 16,
};

enum cfi_instruction {
	CFI_NOP = 0x00,
	CFI_SAME_VALUE = 0x08,
	CFI_DEF_CFA_EXPRESSION = 0x0f,
	CFI_EXPRESSION = 0x10,
	CFI_VAL_EXPRESSION = 0x16,
};

enum cfi_op {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST4U = 0x0c,
	OP_CONST8U = 0x0e,
	OP_DUP = 0x12,
	OP_DROP = 0x13,
	OP_OVER = 0x14,
	OP_PICK = 0x15,
	OP_SWAP = 0x16,
	OP_ROT = 0x17,
	OP_AND = 0x1a,
	OP_MINUS = 0x1c,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23, /* with an operand below 128 */
	OP_SHL = 0x24,
	OP_SHR = 0x25,
	OP_XOR = 0x27,
	OP_BRA = 0x28,
	OP_EQ = 0x29,
	OP_GT = 0x2b,
	OP_LT = 0x2d,
	OP_SKIP = 0x2f,
	OP_LIT0 = 0x30, /* the first of 32 */
	OP_BREG0 = 0x70, /* with an operand between -64 and 63 */
	OP_DEREF_SIZE = 0x94,
};

void cfi_put32(struct emitter *e, uint32_t value);
/* Operations without operands, or with byte operands. */
#define cfi_ops(e, ...)                                                                            \
	emit_bytes(e, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))
void cfi_const32(struct emitter *e, uint32_t value);
void cfi_const64(struct emitter *e, uint64_t value);

/* OP_BRA or OP_SKIP forward; the result is for cfi_land, at the destination. */
size_t cfi_jump(struct emitter *e, enum cfi_op op);
void cfi_land(struct emitter *e, size_t jump);
/* OP_BRA or OP_SKIP backward, to an earlier e->size. */
void cfi_jump_back(struct emitter *e, enum cfi_op op, size_t to);

/* Pads the record to 8 bytes and fills in its length, which doesn't count its own four bytes. */
void cfi_end_record(struct emitter *e, size_t start);
/* CIE "zR", up to its first instruction; the result is for cfi_end_record. */
size_t cfi_begin_cie(struct emitter *e);
/* An FDE whose CIE is at `cie` in the buffer, for the code from `start` on. */
size_t cfi_begin_fde(struct emitter *e, size_t cie, taddr start, uint64_t size);
/* A rule for a register (ignored for the CFA) by an expression, which has its length in front. */
size_t cfi_begin_rule(struct emitter *e, enum cfi_instruction rule, enum cfi_register column);
void cfi_end_rule(struct emitter *e, size_t start);

#endif
