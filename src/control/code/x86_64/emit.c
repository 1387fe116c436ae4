/*
 * emit.c - one function per instruction, with its opcode; encode.c lays the bytes out.
 */
#include "encode.h"

struct mem mem_at(enum reg base, int32_t disp)
{
	return (struct mem){ .base = base, .index = REG_NONE, .scale = 1, .disp = disp };
}

struct mem mem_index(enum reg base, enum reg index, uint8_t scale, int32_t disp)
{
	return (struct mem){ .base = base, .index = index, .scale = scale, .disp = disp };
}

struct mem mem_fs(enum reg base, int32_t disp)
{
	return (struct mem){
		.base = base, .index = REG_NONE, .scale = 1, .disp = disp, .segment = SEG_FS
	};
}

struct mem mem_rip(taddr absolute)
{
	return (struct mem){
		.base = REG_NONE, .index = REG_NONE, .scale = 1, .rip_relative = true,
		.absolute = absolute
	};
}

/* Notes that rsp went down by `by`. */
static void sink(struct emitter *e, int32_t by)
{
	emit_row(e, e->row.depth + by, e->row.origin, e->row.kept);
}

/* ---- moves ---------------------------------------------------------------------------------- */

void emit_push(struct emitter *e, enum reg reg)
{
	encode_short(e, 0x50, reg);
	sink(e, 8);
}

void emit_pop(struct emitter *e, enum reg reg)
{
	encode_short(e, 0x58, reg);
	sink(e, -8);
}

void emit_push_mem(struct emitter *e, struct mem from)
{
	encode_mem(e, 0xff, 6, from, 0);
	sink(e, 8);
}

void emit_push_imm32(struct emitter *e, int32_t value)
{
	encode_byte(e, 0x68);
	encode_word(e, value);
	sink(e, 8);
}

void emit_mov(struct emitter *e, enum reg to, enum reg from)
{
	encode_reg(e, OP_W | 0x89, from, to);
}

void emit_mov32(struct emitter *e, enum reg to, enum reg from)
{
	encode_reg(e, 0x89, from, to);
}

void emit_mov_imm(struct emitter *e, enum reg to, uint64_t value)
{
	if (value == (uint32_t)value) {
		encode_short(e, 0xb8, to); /* mov r32, imm32 clears the upper half */
		encode_word(e, (int32_t)value);
	} else if ((int64_t)value == (int32_t)value) {
		encode_reg(e, OP_W | 0xc7, 0, to); /* sign-extended */
		encode_word(e, (int32_t)value);
	} else {
		encode_short(e, OP_W | 0xb8, to);
		emit_u64(e, value);
	}
}

void emit_load(struct emitter *e, enum reg to, struct mem from)
{
	encode_mem(e, OP_W | 0x8b, to, from, 0);
}

void emit_load32(struct emitter *e, enum reg to, struct mem from)
{
	encode_mem(e, 0x8b, to, from, 0);
}

void emit_load_size(struct emitter *e, enum reg to, struct mem from, unsigned size)
{
	unsigned op = size == 8 ? OP_W | 0x8b :
		      size == 4 ? 0x8b :
				  OP_0F | (size == 2 ? 0xb7 : 0xb6);

	encode_mem(e, op, to, from, 0);
}

void emit_store(struct emitter *e, struct mem to, enum reg from)
{
	encode_mem(e, OP_W | 0x89, from, to, 0);
}

void emit_store32(struct emitter *e, struct mem to, enum reg from)
{
	encode_mem(e, 0x89, from, to, 0);
}

void emit_store_size(struct emitter *e, struct mem to, enum reg from, unsigned size)
{
	if (size == 1 && from > RBX)
		e->failed = true; /* without a REX prefix that would be ah..bh */
	encode_mem(e,
		   size == 8 ? OP_W | 0x89 :
		   size == 4 ? 0x89 :
		   size == 2 ? OP_66 | 0x89 :
			       0x88,
		   from, to, 0);
}

void emit_store_xmm(struct emitter *e, struct mem to, unsigned xmm, unsigned size)
{
	unsigned op = size == 16 ? OP_F3 | OP_0F | 0x7f : /* movdqu */
		      size == 8	 ? OP_66 | OP_0F | 0xd6 : /* movq */
				   OP_66 | OP_0F | 0x7e; /* movd */

	encode_mem(e, op, xmm, to, 0);
}

void emit_mov_from_xmm(struct emitter *e, enum reg to, unsigned xmm)
{
	encode_reg(e, OP_66 | OP_W | OP_0F | 0x7e, xmm, to);
}

void emit_fstp80(struct emitter *e, struct mem to)
{
	encode_mem(e, 0xdb, 7, to, 0);
}

void emit_fld80(struct emitter *e, struct mem from)
{
	encode_mem(e, 0xdb, 5, from, 0);
}

void emit_store_imm32(struct emitter *e, struct mem to, int32_t value)
{
	encode_mem(e, 0xc7, 0, to, 4);
	encode_word(e, value);
}

void emit_store_imm8(struct emitter *e, struct mem to, uint8_t value)
{
	encode_mem(e, 0xc6, 0, to, 1);
	encode_byte(e, value);
}

void emit_store_imm(struct emitter *e, struct mem to, int32_t value)
{
	encode_mem(e, OP_W | 0xc7, 0, to, 4);
	encode_word(e, value);
}

void emit_lea(struct emitter *e, enum reg to, struct mem of)
{
	encode_mem(e, OP_W | 0x8d, to, of, 0);
	if (to == RSP && of.base == RSP)
		sink(e, -of.disp);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static void put_alu_imm(struct emitter *e, unsigned wide, enum alu alu, enum reg reg, int32_t value)
{
	if (encode_fits8(value)) {
		encode_reg(e, wide | 0x83, alu, reg);
		encode_byte(e, (uint8_t)value);
		return;
	}
	if (reg == RAX)
		encode_opcode(e, wide | 0x05 | (unsigned)alu << 3, 0);
	else
		encode_reg(e, wide | 0x81, alu, reg);
	encode_word(e, value);
}

void emit_alu(struct emitter *e, enum alu alu, enum reg to, enum reg from)
{
	encode_reg(e, OP_W | 0x01 | (unsigned)alu << 3, from, to);
}

void emit_alu_imm(struct emitter *e, enum alu alu, enum reg to, int32_t value)
{
	put_alu_imm(e, OP_W, alu, to, value);
}

void emit_test_imm(struct emitter *e, enum reg reg, int32_t value)
{
	encode_reg(e, OP_W | 0xf7, 0, reg);
	encode_word(e, value);
}

void emit_imul(struct emitter *e, enum reg to, enum reg from)
{
	encode_reg(e, OP_W | OP_0F | 0xaf, to, from);
}

void emit_div(struct emitter *e, enum reg by)
{
	encode_reg(e, OP_W | 0xf7, 6, by);
}

void emit_lock_xadd(struct emitter *e, struct mem what, enum reg with)
{
	encode_byte(e, 0xf0);
	encode_mem(e, OP_W | OP_0F | 0xc1, with, what, 0);
}

void emit_lock_add_mem(struct emitter *e, struct mem what, enum reg value)
{
	encode_byte(e, 0xf0);
	encode_mem(e, OP_W | 0x01, value, what, 0);
}

void emit_add_mem(struct emitter *e, struct mem what, enum reg value)
{
	encode_mem(e, OP_W | 0x01, value, what, 0);
}

void emit_lock_inc_mem(struct emitter *e, struct mem what)
{
	encode_byte(e, 0xf0);
	emit_inc_mem(e, what);
}

void emit_xchg(struct emitter *e, struct mem what, enum reg with)
{
	encode_mem(e, OP_W | 0x87, with, what, 0);
}

void emit_lock_cmpxchg(struct emitter *e, struct mem what, enum reg with)
{
	encode_byte(e, 0xf0);
	emit_cmpxchg(e, what, with);
}

void emit_add(struct emitter *e, enum reg to, enum reg from)
{
	encode_reg(e, OP_W | 0x01, from, to);
}

void emit_add_imm(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, OP_W, ALU_ADD, to, value);
}

void emit_add_imm32(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, 0, ALU_ADD, to, value);
}

void emit_sub_mem(struct emitter *e, enum reg to, struct mem from)
{
	encode_mem(e, OP_W | 0x2b, to, from, 0);
}

void emit_or(struct emitter *e, enum reg to, enum reg from)
{
	encode_reg(e, OP_W | 0x09, from, to);
}

void emit_or_imm(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, OP_W, ALU_OR, to, value);
}

void emit_or_long_imm(struct emitter *e, enum reg to, int32_t value)
{
	encode_reg(e, OP_W | 0x81, ALU_OR, to);
	encode_word(e, value);
}

void emit_and_imm32(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, 0, ALU_AND, to, value);
}

void emit_xor_imm(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, OP_W, ALU_XOR, to, value);
}

void emit_not(struct emitter *e, enum reg reg)
{
	encode_reg(e, OP_W | 0xf7, 2, reg);
}

static void put_shift(struct emitter *e, unsigned extension, enum reg reg, uint8_t count)
{
	if (count > 63)
		e->failed = true;
	encode_reg(e, OP_W | (count == 1 ? 0xd1 : 0xc1), extension, reg);
	if (count != 1)
		encode_byte(e, count);
}

void emit_shl_imm(struct emitter *e, enum reg reg, uint8_t count)
{
	put_shift(e, 4, reg, count);
}

void emit_shr_imm(struct emitter *e, enum reg reg, uint8_t count)
{
	put_shift(e, 5, reg, count);
}

void emit_sar_imm(struct emitter *e, enum reg reg, uint8_t count)
{
	put_shift(e, 7, reg, count);
}

void emit_shr_cl(struct emitter *e, enum reg reg)
{
	encode_reg(e, OP_W | 0xd3, 5, reg);
}

void emit_shl_cl(struct emitter *e, enum reg reg)
{
	encode_reg(e, OP_W | 0xd3, 4, reg);
}

void emit_bsr(struct emitter *e, enum reg to, enum reg from)
{
	encode_reg(e, OP_W | OP_0F | 0xbd, to, from);
}

void emit_imul_imm(struct emitter *e, enum reg to, enum reg from, int32_t value)
{
	encode_reg(e, OP_W | (encode_fits8(value) ? 0x6b : 0x69), to, from);
	if (encode_fits8(value))
		encode_byte(e, (uint8_t)value);
	else
		encode_word(e, value);
}

void emit_imul_mem32_imm(struct emitter *e, enum reg to, struct mem from, int32_t value)
{
	encode_mem(e, 0x69, to, from, 4);
	encode_word(e, value);
}

void emit_mul(struct emitter *e, enum reg by)
{
	encode_reg(e, OP_W | 0xf7, 4, by);
}

void emit_shrd_imm(struct emitter *e, enum reg to, enum reg from, uint8_t count)
{
	if (count > 63)
		e->failed = true;
	encode_reg(e, OP_W | OP_0F | 0xac, from, to);
	encode_byte(e, count);
}

void emit_inc_mem32(struct emitter *e, struct mem what)
{
	encode_mem(e, 0xff, 0, what, 0);
}

void emit_inc_mem(struct emitter *e, struct mem what)
{
	encode_mem(e, OP_W | 0xff, 0, what, 0);
}

void emit_inc_mem16(struct emitter *e, struct mem what)
{
	encode_mem(e, OP_66 | 0xff, 0, what, 0);
}

void emit_dec_mem16(struct emitter *e, struct mem what)
{
	encode_mem(e, OP_66 | 0xff, 1, what, 0);
}

void emit_cmp_mem(struct emitter *e, enum reg reg, struct mem with)
{
	encode_mem(e, OP_W | 0x3b, reg, with, 0);
}

void emit_cmp_mem32(struct emitter *e, enum reg reg, struct mem with)
{
	encode_mem(e, 0x3b, reg, with, 0);
}

void emit_cmp_mem32_imm(struct emitter *e, struct mem what, int32_t value)
{
	encode_mem(e, 0x81, ALU_CMP, what, 4);
	encode_word(e, value);
}

void emit_cmpxchg(struct emitter *e, struct mem what, enum reg with)
{
	encode_mem(e, OP_W | OP_0F | 0xb1, with, what, 0);
}

/* ---- other instructions --------------------------------------------------------------------- */

void emit_rdtsc(struct emitter *e)
{
	encode_opcode(e, OP_0F | 0x31, 0);
}

void emit_rdfsbase(struct emitter *e, enum reg to)
{
	encode_reg(e, OP_F3 | OP_W | OP_0F | 0xae, 0, to);
}

void emit_rdpid(struct emitter *e, enum reg to)
{
	encode_reg(e, OP_F3 | OP_0F | 0xc7, 7, to);
}

void emit_lahf(struct emitter *e)
{
	encode_byte(e, 0x9f);
}

void emit_nop(struct emitter *e)
{
	encode_byte(e, 0x90);
}

void emit_sahf(struct emitter *e)
{
	encode_byte(e, 0x9e);
}

void emit_setcc8(struct emitter *e, enum cond cc, enum reg to)
{
	if (to > RBX)
		e->failed = true; /* without a REX prefix that would be ah..bh */
	encode_reg(e, OP_0F | 0x90 | cc, 0, to);
}

void emit_add_al_imm8(struct emitter *e, int8_t value)
{
	encode_byte(e, 0x04);
	encode_byte(e, (uint8_t)value);
}

void emit_call_mem(struct emitter *e, struct mem to)
{
	encode_mem(e, 0xff, 2, to, 0);
}

void emit_call_reg(struct emitter *e, enum reg to)
{
	encode_reg(e, 0xff, 2, to);
}

void emit_jmp_mem(struct emitter *e, struct mem to)
{
	encode_mem(e, 0xff, 4, to, 0);
}

void emit_ret(struct emitter *e)
{
	encode_byte(e, 0xc3);
}

void emit_int3(struct emitter *e)
{
	encode_byte(e, 0xcc);
}
