/*
 * encode.c - write the parts of an instruction:
 *
 *   [F3] [segment] [REX] [0F] opcode ModRM [SIB] [disp8 | disp32] [immediate]
 */
#include "encode.h"

#include <string.h>

#include "control/base/vec.h"

#define REX 0x40u
#define REX_W 8u
#define REX_R 4u
#define REX_X 2u
#define REX_B 1u

#define RM_SIB 4u
#define RM_DISP32 5u /* with mod 0: [rip + disp32], or in a SIB byte no base */
#define SIB_NO_INDEX 4u

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

void emit_row(struct emitter *e, int32_t depth, uint8_t origin, uint8_t kept)
{
	struct emit_rows *rows = e->rows;

	e->row = (struct emit_row){ e->size, depth, origin, kept };
	if (rows && rows->count && vec_last(rows)->at == e->size)
		rows->count--;
	if (rows && !vec_push(rows, e->row))
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

void encode_byte(struct emitter *e, unsigned value)
{
	emit_bytes(e, &(uint8_t){ (uint8_t)value }, 1);
}

void encode_word(struct emitter *e, int32_t value)
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

bool encode_fits8(int64_t value)
{
	return value == (int8_t)value;
}

/* ---- the layout of an instruction ----------------------------------------------------------- */

static bool is_reg(enum reg reg)
{
	return reg >= RAX && reg <= R15;
}

void encode_opcode(struct emitter *e, unsigned op, unsigned rex)
{
	if (op & OP_66)
		encode_byte(e, 0x66);
	if (op & OP_F3)
		encode_byte(e, 0xf3);
	if (op & OP_W)
		rex |= REX_W;
	if (rex)
		encode_byte(e, REX | rex);
	if (op & OP_0F)
		encode_byte(e, 0x0f);
	encode_byte(e, op & 0xff);
}

static void put_modrm(struct emitter *e, unsigned mod, unsigned reg, unsigned rm)
{
	encode_byte(e, mod << 6 | (reg & 7) << 3 | (rm & 7));
}

void encode_reg(struct emitter *e, unsigned op, unsigned reg, enum reg rm)
{
	if (reg > R15 || !is_reg(rm)) {
		e->failed = true;
		return;
	}
	encode_opcode(e, op, (reg & 8 ? REX_R : 0) | (rm & 8 ? REX_B : 0));
	put_modrm(e, 3, reg, rm);
}

/* [rip + x]: x counts from the instruction's end, which follows x and the immediate. */
static void put_rip(struct emitter *e, unsigned op, unsigned reg, taddr to, unsigned imm_size)
{
	encode_opcode(e, op, reg & 8 ? REX_R : 0);
	put_modrm(e, 0, reg, RM_DISP32);

	taddr end = taddr_add(emit_pc(e), 4 + (int64_t)imm_size);

	if (!emit_reaches(end, to))
		e->failed = true;
	encode_word(e, (int32_t)taddr_diff(to, end));
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
	else if (encode_fits8(m.disp))
		mod = 1;
	encode_opcode(e, op, (reg & 8 ? REX_R : 0) | (indexed && index & 8 ? REX_X : 0) |
				  (based && base & 8 ? REX_B : 0));
	if (!based || indexed || (base & 7) == RM_SIB) {
		put_modrm(e, mod, reg, RM_SIB);
		encode_byte(e, scale_bits(m.scale) << 6 | (index & 7) << 3 | (base & 7));
	} else {
		put_modrm(e, mod, reg, base);
	}
	if (mod == 1)
		encode_byte(e, (uint8_t)m.disp);
	else if (mod == 2 || !based)
		encode_word(e, m.disp);
}

static bool is_mem(struct mem m)
{
	bool scaled = m.scale == 1 || m.scale == 2 || m.scale == 4 || m.scale == 8;

	return (m.base == REG_NONE || is_reg(m.base)) &&
	       (m.index == REG_NONE || (is_reg(m.index) && m.index != RSP && scaled));
}

void encode_mem(struct emitter *e, unsigned op, unsigned reg, struct mem m, unsigned imm_size)
{
	if (reg > R15 || !is_mem(m)) {
		e->failed = true;
		return;
	}
	if (m.segment != SEG_NONE)
		encode_byte(e, m.segment == SEG_FS ? 0x64 : 0x65);
	if (m.rip_relative)
		put_rip(e, op, reg, m.absolute, imm_size);
	else
		put_based(e, op, reg, m);
}

void encode_short(struct emitter *e, unsigned op, enum reg reg)
{
	if (!is_reg(reg)) {
		e->failed = true;
		return;
	}
	encode_opcode(e, op | (reg & 7), reg & 8 ? REX_B : 0);
}
