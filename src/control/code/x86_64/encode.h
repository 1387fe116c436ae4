/*
 * encode.h - the layout of an instruction. For emit*.c only.
 *
 * An instruction is an opcode word, a register field and an operand that is memory or a register;
 * the opcode word is the opcode byte with OP_* flags above it. An operand that can't be encoded
 * makes the emitter fail.
 */
#ifndef DYNTRACE_ENCODE_H
#define DYNTRACE_ENCODE_H

#include "control/code/emit.h"

#define OP_0F 0x100u
#define OP_W 0x200u /* 64-bit operand */
#define OP_F3 0x400u
#define OP_66 0x800u

void encode_byte(struct emitter *e, unsigned value);
void encode_word(struct emitter *e, int32_t value); /* 32 bits */
bool encode_fits8(int64_t value);

/* Writes everything before ModRM. */
void encode_opcode(struct emitter *e, unsigned op, unsigned rex);
/* Writes an instruction with a register operand. */
void encode_reg(struct emitter *e, unsigned op, unsigned reg, enum reg rm);
/* Writes an instruction with a memory operand. imm_size: bytes of the immediate that the caller
 * adds. */
void encode_mem(struct emitter *e, unsigned op, unsigned reg, struct mem m, unsigned imm_size);
/* Writes an instruction with the register in the opcode's low three bits. */
void encode_short(struct emitter *e, unsigned op, enum reg reg);

#endif
