/*
 * An instruction is an opcode word, a register field and an operand that is memory or a register:
 * put_mem and put_reg lay those out, and each emit_* names its opcode.
 *
 *   [F3] [segment] [REX] [0F] opcode ModRM [SIB] [disp8 | disp32] [immediate]
 *
 * The opcode word is the opcode byte with OP_* flags above it.
 */
#include "emit.h"

#include "../base/vec.h"

#include <assert.h>
#include <string.h>

#define OP_0F 0x100u
#define OP_W 0x200u /* 64-bit operand */
#define OP_F3 0x400u
#define OP_66 0x800u

#define REX 0x40u
#define REX_W 8u
#define REX_R 4u
#define REX_X 2u
#define REX_B 1u

#define RM_SIB 4u
#define RM_DISP32 5u /* with mod 0: [rip + disp32], or in a SIB byte no base */
#define SIB_NO_INDEX 4u

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

/* ---- bytes ---------------------------------------------------------------------------------- */

void emit_init(struct emitter *e, uint8_t *bytes, size_t room, taddr pc)
{
	*e = (struct emitter){ .bytes = bytes, .room = room, .pc = pc };
}

void emit_note(struct emitter *e, const char *text)
{
	if (e->notes && !vec_push(e->notes, (struct emit_note){ e->size, text }))
		e->failed = true;
}

bool emit_failed(const struct emitter *e)
{
	return e->failed;
}

taddr emit_pc(const struct emitter *e)
{
	return taddr_add(e->pc, (int64_t)e->size);
}

bool emit_reaches(taddr end, taddr to)
{
	int64_t distance = taddr_diff(to, end);

	return distance == (int32_t)distance;
}

void emit_bytes(struct emitter *e, const void *bytes, size_t n)
{
	if (e->failed || n > e->room - e->size) {
		e->failed = true;
		return;
	}
	memcpy(e->bytes + e->size, bytes, n);
	e->size += n;
}

static void put8(struct emitter *e, unsigned value)
{
	emit_bytes(e, &(uint8_t){ (uint8_t)value }, 1);
}

static void put32(struct emitter *e, int32_t value)
{
	emit_bytes(e, &value, sizeof(value));
}

void emit_u64(struct emitter *e, uint64_t value)
{
	emit_bytes(e, &value, sizeof(value));
}

void emit_align(struct emitter *e, size_t to)
{
	while (!e->failed && emit_pc(e).v % to)
		emit_int3(e);
}

static bool fits8(int64_t value)
{
	return value == (int8_t)value;
}

/* ---- the layout of an instruction ----------------------------------------------------------- */

static bool is_reg(enum reg reg)
{
	return reg >= RAX && reg <= R15;
}

/* Everything before ModRM. */
static void put_opcode(struct emitter *e, unsigned op, unsigned rex)
{
	if (op & OP_66)
		put8(e, 0x66);
	if (op & OP_F3)
		put8(e, 0xf3);
	if (op & OP_W)
		rex |= REX_W;
	if (rex)
		put8(e, REX | rex);
	if (op & OP_0F)
		put8(e, 0x0f);
	put8(e, op & 0xff);
}

static void put_modrm(struct emitter *e, unsigned mod, unsigned reg, unsigned rm)
{
	put8(e, mod << 6 | (reg & 7) << 3 | (rm & 7));
}

/* ModRM with a register operand. */
static void put_reg(struct emitter *e, unsigned op, unsigned reg, enum reg rm)
{
	if (reg > R15 || !is_reg(rm)) {
		e->failed = true;
		return;
	}
	put_opcode(e, op, (reg & 8 ? REX_R : 0) | (rm & 8 ? REX_B : 0));
	put_modrm(e, 3, reg, rm);
}

/* [rip + x]: x counts from the instruction's end, which lies an immediate behind it. */
static void put_rip(struct emitter *e, unsigned op, unsigned reg, taddr to, unsigned imm_size)
{
	put_opcode(e, op, reg & 8 ? REX_R : 0);
	put_modrm(e, 0, reg, RM_DISP32);

	taddr end = taddr_add(emit_pc(e), 4 + (int64_t)imm_size);

	if (!emit_reaches(end, to))
		e->failed = true;
	put32(e, (int32_t)taddr_diff(to, end));
}

static unsigned scale_bits(uint8_t scale)
{
	return scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0;
}

static void put_based(struct emitter *e, unsigned op, unsigned reg, struct mem m)
{
	bool based = m.base != REG_NONE, indexed = m.index != REG_NONE;
	unsigned base = based ? (unsigned)m.base : RM_DISP32;
	unsigned index = indexed ? (unsigned)m.index : SIB_NO_INDEX;
	unsigned mod = 2;

	if (!based)
		mod = 0;
	else if (m.disp == 0 && (base & 7) != RM_DISP32)
		mod = 0;
	else if (fits8(m.disp))
		mod = 1;
	put_opcode(e, op, (reg & 8 ? REX_R : 0) | (indexed && index & 8 ? REX_X : 0) |
				  (based && base & 8 ? REX_B : 0));
	if (!based || indexed || (base & 7) == RM_SIB) {
		put_modrm(e, mod, reg, RM_SIB);
		put8(e, scale_bits(m.scale) << 6 | (index & 7) << 3 | (base & 7));
	} else {
		put_modrm(e, mod, reg, base);
	}
	if (mod == 1)
		put8(e, (uint8_t)m.disp);
	else if (mod == 2 || !based)
		put32(e, m.disp);
}

static bool is_mem(struct mem m)
{
	bool scaled = m.scale == 1 || m.scale == 2 || m.scale == 4 || m.scale == 8;

	return (m.base == REG_NONE || is_reg(m.base)) &&
	       (m.index == REG_NONE || (is_reg(m.index) && m.index != RSP && scaled));
}

/* ModRM with a memory operand. imm_size: bytes of the immediate that the caller puts behind it. */
static void put_mem(struct emitter *e, unsigned op, unsigned reg, struct mem m, unsigned imm_size)
{
	if (reg > R15 || !is_mem(m)) {
		e->failed = true;
		return;
	}
	if (m.segment != SEG_NONE)
		put8(e, m.segment == SEG_FS ? 0x64 : 0x65);
	if (m.rip_relative)
		put_rip(e, op, reg, m.absolute, imm_size);
	else
		put_based(e, op, reg, m);
}

/* The register in the opcode's low three bits. */
static void put_short(struct emitter *e, unsigned op, enum reg reg)
{
	if (!is_reg(reg)) {
		e->failed = true;
		return;
	}
	put_opcode(e, op | (reg & 7), reg & 8 ? REX_B : 0);
}

/* ---- labels and jumps ----------------------------------------------------------------------- */

/* Fills in the field at `field`, the last of its instruction. */
static void put_distance(struct emitter *e, size_t field, bool is_short, size_t to)
{
	int64_t distance = (int64_t)to - (int64_t)(field + (is_short ? 1 : 4));
	int32_t distance32 = (int32_t)distance;

	if (is_short ? !fits8(distance) : distance != distance32)
		e->failed = true;
	if (!e->failed)
		memcpy(e->bytes + field, &distance32, is_short ? 1 : 4);
}

void emit_bind(struct emitter *e, struct label *label)
{
	assert(!label->bound);
	label->bound = true;
	label->at = e->size;
	for (size_t i = 0; i < label->fixup_count; i++)
		put_distance(e, label->fixups[i], label->fixup_short[i], label->at);
}

/* The rel8 or rel32 field of a jump to a label. */
static void put_label(struct emitter *e, struct label *to, bool is_short)
{
	size_t field = e->size;

	emit_bytes(e, &(int32_t){ 0 }, is_short ? 1 : 4);
	if (to->bound) {
		put_distance(e, field, is_short, to->at);
	} else if (to->fixup_count == EMIT_FIXUPS_MAX) {
		e->failed = true;
	} else {
		to->fixups[to->fixup_count] = field;
		to->fixup_short[to->fixup_count++] = is_short;
	}
}

static void put_rel32(struct emitter *e, taddr to)
{
	taddr end = taddr_add(emit_pc(e), 4);

	if (!emit_reaches(end, to))
		e->failed = true;
	put32(e, (int32_t)taddr_diff(to, end));
}

void emit_jmp_to(struct emitter *e, taddr to)
{
	put_opcode(e, 0xe9, 0);
	put_rel32(e, to);
}

void emit_call_to(struct emitter *e, taddr to)
{
	put_opcode(e, 0xe8, 0);
	put_rel32(e, to);
}

void emit_jcc_to(struct emitter *e, enum cond cc, taddr to)
{
	put_opcode(e, OP_0F | 0x80 | cc, 0);
	put_rel32(e, to);
}

void emit_jmp(struct emitter *e, struct label *to)
{
	put_opcode(e, 0xe9, 0);
	put_label(e, to, false);
}

void emit_jmp_short(struct emitter *e, struct label *to)
{
	put_opcode(e, 0xeb, 0);
	put_label(e, to, true);
}

void emit_jcc(struct emitter *e, enum cond cc, struct label *to)
{
	put_opcode(e, OP_0F | 0x80 | cc, 0);
	put_label(e, to, false);
}

void emit_jcc_short(struct emitter *e, enum cond cc, struct label *to)
{
	put_opcode(e, 0x70 | cc, 0);
	put_label(e, to, true);
}

void emit_jrcxz(struct emitter *e, struct label *to)
{
	put_opcode(e, 0xe3, 0);
	put_label(e, to, true);
}

/* ---- moves ---------------------------------------------------------------------------------- */

void emit_push(struct emitter *e, enum reg reg)
{
	put_short(e, 0x50, reg);
}

void emit_pop(struct emitter *e, enum reg reg)
{
	put_short(e, 0x58, reg);
}

void emit_push_mem(struct emitter *e, struct mem from)
{
	put_mem(e, 0xff, 6, from, 0);
}

void emit_push_imm32(struct emitter *e, int32_t value)
{
	put8(e, 0x68);
	put32(e, value);
}

void emit_mov(struct emitter *e, enum reg to, enum reg from)
{
	put_reg(e, OP_W | 0x89, from, to);
}

void emit_mov32(struct emitter *e, enum reg to, enum reg from)
{
	put_reg(e, 0x89, from, to);
}

void emit_mov_imm(struct emitter *e, enum reg to, uint64_t value)
{
	if (value == (uint32_t)value) {
		put_short(e, 0xb8, to); /* mov r32, imm32 clears the upper half */
		put32(e, (int32_t)value);
	} else if ((int64_t)value == (int32_t)value) {
		put_reg(e, OP_W | 0xc7, 0, to); /* sign-extended */
		put32(e, (int32_t)value);
	} else {
		put_short(e, OP_W | 0xb8, to);
		emit_u64(e, value);
	}
}

void emit_load(struct emitter *e, enum reg to, struct mem from)
{
	put_mem(e, OP_W | 0x8b, to, from, 0);
}

void emit_load32(struct emitter *e, enum reg to, struct mem from)
{
	put_mem(e, 0x8b, to, from, 0);
}

void emit_load_size(struct emitter *e, enum reg to, struct mem from, unsigned size)
{
	unsigned op = size == 8 ? OP_W | 0x8b : size == 4 ? 0x8b : OP_0F | (size == 2 ? 0xb7 : 0xb6);

	put_mem(e, op, to, from, 0);
}

void emit_store(struct emitter *e, struct mem to, enum reg from)
{
	put_mem(e, OP_W | 0x89, from, to, 0);
}

void emit_store32(struct emitter *e, struct mem to, enum reg from)
{
	put_mem(e, 0x89, from, to, 0);
}

void emit_store_size(struct emitter *e, struct mem to, enum reg from, unsigned size)
{
	if (size == 1 && from > RBX)
		e->failed = true; /* without a REX prefix that would be ah..bh */
	put_mem(e, size == 8 ? OP_W | 0x89 : size == 4 ? 0x89 : size == 2 ? OP_66 | 0x89 : 0x88, from, to, 0);
}

void emit_store_xmm(struct emitter *e, struct mem to, unsigned xmm, unsigned size)
{
	unsigned op = size == 16 ? OP_F3 | OP_0F | 0x7f : /* movdqu */
		      size == 8	 ? OP_66 | OP_0F | 0xd6 : /* movq */
				   OP_66 | OP_0F | 0x7e; /* movd */

	put_mem(e, op, xmm, to, 0);
}

void emit_mov_from_xmm(struct emitter *e, enum reg to, unsigned xmm)
{
	put_reg(e, OP_66 | OP_W | OP_0F | 0x7e, xmm, to);
}

void emit_fstp80(struct emitter *e, struct mem to)
{
	put_mem(e, 0xdb, 7, to, 0);
}

void emit_fld80(struct emitter *e, struct mem from)
{
	put_mem(e, 0xdb, 5, from, 0);
}

void emit_store_imm32(struct emitter *e, struct mem to, int32_t value)
{
	put_mem(e, 0xc7, 0, to, 4);
	put32(e, value);
}

void emit_store_imm(struct emitter *e, struct mem to, int32_t value)
{
	put_mem(e, OP_W | 0xc7, 0, to, 4);
	put32(e, value);
}

void emit_lea(struct emitter *e, enum reg to, struct mem of)
{
	put_mem(e, OP_W | 0x8d, to, of, 0);
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static void put_alu_imm(struct emitter *e, unsigned wide, enum alu alu, enum reg reg, int32_t value)
{
	if (fits8(value)) {
		put_reg(e, wide | 0x83, alu, reg);
		put8(e, (uint8_t)value);
		return;
	}
	if (reg == RAX)
		put_opcode(e, wide | 0x05 | (unsigned)alu << 3, 0);
	else
		put_reg(e, wide | 0x81, alu, reg);
	put32(e, value);
}

void emit_alu(struct emitter *e, enum alu alu, enum reg to, enum reg from)
{
	put_reg(e, OP_W | 0x01 | (unsigned)alu << 3, from, to);
}

void emit_imul(struct emitter *e, enum reg to, enum reg from)
{
	put_reg(e, OP_W | OP_0F | 0xaf, to, from);
}

void emit_div(struct emitter *e, enum reg by)
{
	put_reg(e, OP_W | 0xf7, 6, by);
}

void emit_lock_xadd(struct emitter *e, struct mem what, enum reg with)
{
	put8(e, 0xf0);
	put_mem(e, OP_W | OP_0F | 0xc1, with, what, 0);
}

void emit_lock_add_mem(struct emitter *e, struct mem what, enum reg value)
{
	put8(e, 0xf0);
	put_mem(e, OP_W | 0x01, value, what, 0);
}

void emit_lock_inc_mem(struct emitter *e, struct mem what)
{
	put8(e, 0xf0);
	emit_inc_mem(e, what);
}

void emit_xchg(struct emitter *e, struct mem what, enum reg with)
{
	put_mem(e, OP_W | 0x87, with, what, 0);
}

void emit_lock_cmpxchg(struct emitter *e, struct mem what, enum reg with)
{
	put8(e, 0xf0);
	emit_cmpxchg(e, what, with);
}

void emit_add(struct emitter *e, enum reg to, enum reg from)
{
	put_reg(e, OP_W | 0x01, from, to);
}

void emit_add_mem(struct emitter *e, enum reg to, struct mem from)
{
	put_mem(e, OP_W | 0x03, to, from, 0);
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
	put_mem(e, OP_W | 0x2b, to, from, 0);
}

void emit_or(struct emitter *e, enum reg to, enum reg from)
{
	put_reg(e, OP_W | 0x09, from, to);
}

void emit_or_imm(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, OP_W, ALU_OR, to, value);
}

void emit_and_imm32(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, 0, ALU_AND, to, value);
}

void emit_and_mem32(struct emitter *e, enum reg to, struct mem from)
{
	put_mem(e, 0x23, to, from, 0);
}

void emit_xor_imm(struct emitter *e, enum reg to, int32_t value)
{
	put_alu_imm(e, OP_W, ALU_XOR, to, value);
}

void emit_not(struct emitter *e, enum reg reg)
{
	put_reg(e, OP_W | 0xf7, 2, reg);
}

static void put_shift(struct emitter *e, unsigned extension, enum reg reg, uint8_t count)
{
	if (count > 63)
		e->failed = true;
	put_reg(e, OP_W | (count == 1 ? 0xd1 : 0xc1), extension, reg);
	if (count != 1)
		put8(e, count);
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
	put_reg(e, OP_W | 0xd3, 5, reg);
}

void emit_shl_cl(struct emitter *e, enum reg reg)
{
	put_reg(e, OP_W | 0xd3, 4, reg);
}

void emit_bsr(struct emitter *e, enum reg to, enum reg from)
{
	put_reg(e, OP_W | OP_0F | 0xbd, to, from);
}

void emit_imul_imm(struct emitter *e, enum reg to, enum reg from, int32_t value)
{
	put_reg(e, OP_W | (fits8(value) ? 0x6b : 0x69), to, from);
	if (fits8(value))
		put8(e, (uint8_t)value);
	else
		put32(e, value);
}

void emit_imul_mem32_imm(struct emitter *e, enum reg to, struct mem from, int32_t value)
{
	put_mem(e, 0x69, to, from, 4);
	put32(e, value);
}

void emit_mul(struct emitter *e, enum reg by)
{
	put_reg(e, OP_W | 0xf7, 4, by);
}

void emit_shrd_imm(struct emitter *e, enum reg to, enum reg from, uint8_t count)
{
	if (count > 63)
		e->failed = true;
	put_reg(e, OP_W | OP_0F | 0xac, from, to);
	put8(e, count);
}

void emit_inc_mem32(struct emitter *e, struct mem what)
{
	put_mem(e, 0xff, 0, what, 0);
}

void emit_inc_mem(struct emitter *e, struct mem what)
{
	put_mem(e, OP_W | 0xff, 0, what, 0);
}

void emit_inc_mem16(struct emitter *e, struct mem what)
{
	put_mem(e, OP_66 | 0xff, 0, what, 0);
}

void emit_dec_mem16(struct emitter *e, struct mem what)
{
	put_mem(e, OP_66 | 0xff, 1, what, 0);
}

void emit_cmp_mem(struct emitter *e, enum reg reg, struct mem with)
{
	put_mem(e, OP_W | 0x3b, reg, with, 0);
}

void emit_cmp_mem32(struct emitter *e, enum reg reg, struct mem with)
{
	put_mem(e, 0x3b, reg, with, 0);
}

void emit_cmp_mem_imm8(struct emitter *e, struct mem what, int8_t value)
{
	put_mem(e, 0x80, ALU_CMP, what, 1);
	put8(e, (uint8_t)value);
}

void emit_cmp_mem16_imm(struct emitter *e, struct mem what, uint16_t value)
{
	put_mem(e, OP_66 | 0x81, ALU_CMP, what, 2);
	emit_bytes(e, &value, sizeof(value));
}

void emit_cmp_mem32_imm(struct emitter *e, struct mem what, int32_t value)
{
	put_mem(e, 0x81, ALU_CMP, what, 4);
	put32(e, value);
}

void emit_cmpxchg(struct emitter *e, struct mem what, enum reg with)
{
	put_mem(e, OP_W | OP_0F | 0xb1, with, what, 0);
}

/* ---- the rest ------------------------------------------------------------------------------- */

void emit_rdtsc(struct emitter *e)
{
	put_opcode(e, OP_0F | 0x31, 0);
}

void emit_rdfsbase(struct emitter *e, enum reg to)
{
	put_reg(e, OP_F3 | OP_W | OP_0F | 0xae, 0, to);
}

void emit_rdpid(struct emitter *e, enum reg to)
{
	put_reg(e, OP_F3 | OP_0F | 0xc7, 7, to);
}

void emit_lahf(struct emitter *e)
{
	put8(e, 0x9f);
}

void emit_sahf(struct emitter *e)
{
	put8(e, 0x9e);
}

void emit_setcc8(struct emitter *e, enum cond cc, enum reg to)
{
	if (to > RBX)
		e->failed = true; /* without a REX prefix that would be ah..bh */
	put_reg(e, OP_0F | 0x90 | cc, 0, to);
}

void emit_add_al_imm8(struct emitter *e, int8_t value)
{
	put8(e, 0x04);
	put8(e, (uint8_t)value);
}

void emit_call_mem(struct emitter *e, struct mem to)
{
	put_mem(e, 0xff, 2, to, 0);
}

void emit_call_reg(struct emitter *e, enum reg to)
{
	put_reg(e, 0xff, 2, to);
}

void emit_jmp_mem(struct emitter *e, struct mem to)
{
	put_mem(e, 0xff, 4, to, 0);
}

void emit_ret(struct emitter *e)
{
	put8(e, 0xc3);
}

void emit_int3(struct emitter *e)
{
	put8(e, 0xcc);
}
