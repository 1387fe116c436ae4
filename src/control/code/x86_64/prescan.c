/*
 * prescan.c - one row per opcode of the two maps that nearly all code is made of.
 *
 * A row gives the length of the instruction's rest, and the prefixes under which that holds. Zydis
 * gets opcodes without a row, prefixes that change more than an operand's size or a segment, and
 * instructions with further conditions (lock, VEX, x87, far calls). So a missing row costs time,
 * never truth.
 */
#include "control/code/prescan.h"

#include <string.h>

#define INSN_SIZE_MAX 15u
#define REX_W 8u
#define REX_B 1u

/* What follows the opcode. */
enum {
	MODRM = 1u << 0,
	IMM8 = 1u << 1,
	IMM16 = 1u << 2,
	IMMZ = 1u << 3, /* 4 bytes, 2 with the prefix 66 */
	IMMV = 1u << 4, /* the same, 8 with REX.W */
	REL8 = 1u << 5,
	REL32 = 1u << 6,
	IMM_TEST = 1u << 7, /* only test has an immediate in this group */
	ONLY_MEMORY = 1u << 8, /* of ModRM */
	ONLY_REG0 = 1u << 9, /* ModRM.reg is 0 */
	ONLY_REG01 = 1u << 10,
	ONLY_REG4567 = 1u << 11,
	/* the prefixes under which the row holds */
	PLAIN = 1u << 12,
	P66 = 1u << 13,
	PF3 = 1u << 14,
	PF2 = 1u << 15,
	/* the usual form: ModRM, and 66 or no prefix */
	USUAL = PLAIN | P66,
	M = MODRM | USUAL,
	SSE = M | PF3 | PF2,
};

/* What the instruction does. */
enum {
	DOES_NEXT,
	DOES_JUMP,
	DOES_BRANCH,
	DOES_CALL,
	DOES_RETURN,
	DOES_PAD,
	DOES_TRAP,
	DOES_LEA,
	DOES_ADD,
	DOES_MOVSXD,
	DOES_GROUP_ADD, /* ModRM.reg 0 is add */
	DOES_GROUP_FF, /* 2 is call, 4 is jmp */
	DOES_NOP_90, /* unless REX.B makes it an xchg */
};

struct row {
	uint16_t form;
	uint8_t does;
};

/* add, or, adc, sbb, and, sub, xor, cmp: six opcodes each */
#define ARITHMETIC(at)                                                                             \
	[(at)] = { M }, [(at) + 1] = { M }, [(at) + 2] = { M }, [(at) + 3] = { M },                \
	[(at) + 4] = { IMM8 | USUAL }, [(at) + 5] = { IMMZ | USUAL }

static const struct row one_byte[256] = {
	[0x00] = { M, DOES_ADD },
	[0x01] = { M, DOES_ADD },
	[0x02] = { M, DOES_ADD },
	[0x03] = { M, DOES_ADD },
	[0x04] = { IMM8 | USUAL, DOES_ADD },
	[0x05] = { IMMZ | USUAL, DOES_ADD },
	ARITHMETIC(0x08),
	ARITHMETIC(0x10),
	ARITHMETIC(0x18),
	ARITHMETIC(0x20),
	ARITHMETIC(0x28),
	ARITHMETIC(0x30),
	ARITHMETIC(0x38),
	[0x50 ... 0x5f] = { USUAL }, /* push, pop */
	[0x63] = { M, DOES_MOVSXD },
	[0x68] = { IMMZ | USUAL },
	[0x69] = { IMMZ | M },
	[0x6a] = { IMM8 | USUAL },
	[0x6b] = { IMM8 | M },
	[0x70 ... 0x7f] = { REL8 | PLAIN, DOES_BRANCH },
	[0x80] = { IMM8 | M, DOES_GROUP_ADD },
	[0x81] = { IMMZ | M, DOES_GROUP_ADD },
	[0x83] = { IMM8 | M, DOES_GROUP_ADD },
	[0x84 ... 0x8b] = { M }, /* test, xchg, mov */
	[0x8d] = { M | ONLY_MEMORY, DOES_LEA },
	[0x90] = { USUAL, DOES_NOP_90 },
	[0x91 ... 0x99] = { USUAL }, /* xchg, cdqe, cqo */
	[0xa4 ... 0xa7] = { USUAL | PF3 }, /* movs, cmps */
	[0xa8] = { IMM8 | USUAL },
	[0xa9] = { IMMZ | USUAL },
	[0xaa ... 0xab] = { USUAL | PF3 }, /* stos */
	[0xb0 ... 0xb7] = { IMM8 | USUAL },
	[0xb8 ... 0xbf] = { IMMV | USUAL },
	[0xc0 ... 0xc1] = { IMM8 | M }, /* shifts */
	[0xc2] = { IMM16 | PLAIN, DOES_RETURN },
	[0xc3] = { PLAIN | PF3, DOES_RETURN },
	[0xc6] = { IMM8 | M | ONLY_REG0 },
	[0xc7] = { IMMZ | M | ONLY_REG0 },
	[0xc9] = { PLAIN }, /* leave */
	[0xcc] = { PLAIN, DOES_TRAP },
	[0xd0 ... 0xd3] = { M },
	[0xe8] = { REL32 | PLAIN, DOES_CALL },
	[0xe9] = { REL32 | PLAIN, DOES_JUMP },
	[0xeb] = { REL8 | PLAIN, DOES_JUMP },
	[0xf6] = { IMM8 | IMM_TEST | M },
	[0xf7] = { IMMZ | IMM_TEST | M },
	[0xfe] = { M | ONLY_REG01 },
	[0xff] = { MODRM | PLAIN, DOES_GROUP_FF },
};

/* Opcodes after 0f. */
static const struct row two_bytes[256] = {
	[0x10 ... 0x11] = { SSE },
	[0x14 ... 0x15] = { M },
	[0x1f] = { M | ONLY_REG0, DOES_PAD },
	[0x28 ... 0x29] = { M },
	[0x2a] = { MODRM | PF3 | PF2 },
	[0x2c ... 0x2d] = { MODRM | PF3 | PF2 },
	[0x2e ... 0x2f] = { M },
	[0x40 ... 0x4f] = { M }, /* cmovcc */
	[0x51] = { SSE },
	[0x54 ... 0x57] = { M },
	[0x58 ... 0x5a] = { SSE },
	[0x5c ... 0x5f] = { SSE },
	[0x60 ... 0x62] = { MODRM | P66 },
	[0x6c ... 0x6e] = { MODRM | P66 },
	[0x6f] = { MODRM | P66 | PF3 },
	[0x70] = { IMM8 | MODRM | P66 | PF3 | PF2 },
	[0x74 ... 0x76] = { MODRM | P66 },
	[0x7e ... 0x7f] = { MODRM | P66 | PF3 },
	[0x80 ... 0x8f] = { REL32 | PLAIN, DOES_BRANCH },
	[0x90 ... 0x9f] = { MODRM | PLAIN }, /* setcc */
	[0xa3] = { M },
	[0xa4] = { IMM8 | M },
	[0xa5] = { M },
	[0xab] = { M },
	[0xac] = { IMM8 | M },
	[0xad] = { M },
	[0xaf ... 0xb1] = { M },
	[0xb3] = { M },
	[0xb6 ... 0xb7] = { M },
	[0xba] = { IMM8 | M | ONLY_REG4567 },
	[0xbb] = { M },
	[0xbc ... 0xbd] = { MODRM | PLAIN },
	[0xbe ... 0xbf] = { M },
	[0xc0 ... 0xc1] = { M },
	[0xc6] = { IMM8 | M },
	[0xc8 ... 0xcf] = { PLAIN }, /* bswap */
	[0xd4] = { MODRM | P66 },
	[0xd6] = { MODRM | P66 },
	[0xdb] = { MODRM | P66 },
	[0xdf] = { MODRM | P66 },
	[0xeb] = { MODRM | P66 },
	[0xef] = { MODRM | P66 },
	[0xfa ... 0xfb] = { MODRM | P66 },
	[0xfe] = { MODRM | P66 },
};

/* A place in an instruction. */
struct look {
	const uint8_t *bytes;
	size_t at, size; /* at never passes size, nor size the longest instruction */
	uint8_t rex;
	uint16_t prefix; /* PLAIN, P66, PF3 or PF2 */
};

/* Reads up to the opcode. False: a prefix that the table doesn't cover. */
static bool read_prefixes(struct look *look)
{
	look->prefix = PLAIN;
	for (; look->at < look->size; look->at++) {
		uint8_t byte = look->bytes[look->at];
		uint16_t prefix = byte == 0x66 ? P66 : byte == 0xf3 ? PF3 : byte == 0xf2 ? PF2 : 0;

		if (prefix && (look->prefix == PLAIN || look->prefix == prefix))
			look->prefix = prefix;
		else if (prefix)
			return false;
		else if (byte != 0x2e && byte != 0x36 && byte != 0x3e && byte != 0x26 &&
			 byte != 0x64 && byte != 0x65)
			break;
	}
	if (look->at < look->size && (look->bytes[look->at] & 0xf0) == 0x40)
		look->rex = look->bytes[look->at++];
	return look->at < look->size;
}

static const struct row *read_opcode(struct look *look)
{
	uint8_t opcode = look->bytes[look->at++];

	if (opcode != 0x0f)
		return &one_byte[opcode];
	return look->at < look->size ? &two_bytes[look->bytes[look->at++]] : NULL;
}

static bool group_fits(unsigned form, unsigned reg)
{
	return !((form & ONLY_REG0) && reg != 0) && !((form & ONLY_REG01) && reg > 1) &&
	       !((form & ONLY_REG4567) && reg < 4);
}

/* Reads ModRM and SIB, and the displacement's size. False: the row doesn't hold. */
static bool read_modrm(struct look *look, unsigned form, struct prescan *g,
		       size_t *ret_displacement)
{
	if (look->at >= look->size)
		return false;
	g->modrm = look->bytes[look->at++];
	unsigned mod = PRESCAN_MOD(g), rm = PRESCAN_RM(g);
	if ((mod == 3 && (form & ONLY_MEMORY)) || !group_fits(form, g->modrm >> 3 & 7))
		return false;
	*ret_displacement = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (mod == 3)
		return true;
	if (rm == 4) {
		if (look->at >= look->size)
			return false;
		g->sib = look->bytes[look->at++];
		if (mod == 0 && (g->sib & 7) == 5)
			*ret_displacement = 4;
	} else if (mod == 0 && rm == 5) {
		*ret_displacement = 4;
		g->rip_relative = true;
	}
	return true;
}

static size_t immediate_size(const struct look *look, unsigned form, unsigned reg)
{
	size_t z = look->prefix == P66 && !(look->rex & REX_W) ? 2 : 4;

	if ((form & IMM_TEST) && reg > 1)
		return 0;
	if (form & (IMM8 | REL8))
		return 1;
	if (form & IMM16)
		return 2;
	if (form & REL32)
		return 4;
	if (form & IMMV)
		return look->rex & REX_W ? 8 : z;
	return form & IMMZ ? z : 0;
}

/* False: the table doesn't cover this instruction. */
static bool describe(const struct row *row, const struct look *look, struct prescan *g)
{
	static const uint8_t flows[] = {
		[DOES_JUMP] = FLOW_JUMP,     [DOES_BRANCH] = FLOW_BRANCH, [DOES_CALL] = FLOW_CALL,
		[DOES_RETURN] = FLOW_RETURN, [DOES_TRAP] = FLOW_STOP,	  [DOES_NOP_90] = FLOW_NEXT
	};
	static const uint8_t kinds[] = {
		[DOES_PAD] = PRESCAN_PADDING,   [DOES_TRAP] = PRESCAN_PADDING,
		[DOES_LEA] = PRESCAN_LEA,       [DOES_ADD] = PRESCAN_ADD,
		[DOES_MOVSXD] = PRESCAN_MOVSXD, [DOES_NOP_90] = PRESCAN_OTHER
	};
	unsigned reg = g->modrm >> 3 & 7;

	g->flow = flows[row->does < sizeof(flows) ? row->does : DOES_NEXT];
	g->kind = kinds[row->does < sizeof(kinds) ? row->does : DOES_NEXT];
	if (row->does == DOES_NOP_90 && !(look->rex & REX_B))
		g->kind = PRESCAN_PADDING;
	if (row->does == DOES_GROUP_ADD && reg == 0)
		g->kind = PRESCAN_ADD;
	if (row->does == DOES_GROUP_FF) {
		g->flow = reg == 2 ? FLOW_CALL_INDIRECT : reg == 4 ? FLOW_JUMP_INDIRECT : FLOW_NEXT;
		return reg != 3 && reg != 5 && reg != 7; /* far, and none */
	}
	return true;
}

static int32_t signed_at(const uint8_t *bytes, size_t size)
{
	int32_t wide;

	if (size == 1)
		return (int8_t)bytes[0];
	memcpy(&wide, bytes, sizeof(wide));
	return wide;
}

/* Reads an instruction by the tables alone. False: they don't cover it. */
static bool look_up(const uint8_t *bytes, size_t size, taddr pc, struct prescan *g)
{
	struct look look = { .bytes = bytes, .size = size < INSN_SIZE_MAX ? size : INSN_SIZE_MAX };
	size_t displacement = 0;

	*g = (struct prescan){ .pc = pc };
	if (!read_prefixes(&look))
		return false;
	const struct row *row = read_opcode(&look);
	if (!row || !(row->form & look.prefix) ||
	    ((row->form & MODRM) && !read_modrm(&look, row->form, g, &displacement)) ||
	    !describe(row, &look, g))
		return false;
	size_t immediate = immediate_size(&look, row->form, g->modrm >> 3 & 7);
	size_t length = look.at + displacement + immediate;
	if (length > look.size)
		return false;
	g->length = (uint8_t)length;
	g->has_target = row->form & (REL8 | REL32);
	if (g->has_target)
		g->target = taddr_add(pc, (int64_t)length + signed_at(bytes + look.at, immediate));
	if (g->rip_relative)
		g->rip_target =
			taddr_add(pc, (int64_t)length + signed_at(bytes + look.at, displacement));
	return true;
}

static enum prescan_kind kind_of(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_NOP:
	case ZYDIS_MNEMONIC_INT3:
		return PRESCAN_PADDING;
	case ZYDIS_MNEMONIC_LEA:
		return PRESCAN_LEA;
	case ZYDIS_MNEMONIC_ADD:
		return PRESCAN_ADD;
	case ZYDIS_MNEMONIC_MOVSXD:
		return PRESCAN_MOVSXD;
	default:
		return PRESCAN_OTHER;
	}
}

bool prescan(const uint8_t *bytes, size_t size, taddr pc, struct prescan *ret_scan)
{
	struct insn insn;

	if (look_up(bytes, size, pc, ret_scan))
		return true;
	if (!decode_quick(bytes, size, pc, &insn))
		return false;
	bool has_modrm = insn.zydis.attributes & ZYDIS_ATTRIB_HAS_MODRM;
	bool has_sib = insn.zydis.attributes & ZYDIS_ATTRIB_HAS_SIB;
	*ret_scan = (struct prescan){
		.pc = pc,
		.length = insn.length,
		.modrm = has_modrm ? bytes[insn.zydis.raw.modrm.offset] : 0,
		.sib = has_sib ? bytes[insn.zydis.raw.sib.offset] : 0,
		.flow = insn.flow,
		.kind = kind_of(insn.zydis.mnemonic),
		.has_target = insn.has_target,
		.target = insn.target,
		.rip_relative = insn.rip_relative,
		.rip_target = insn.rip_target,
	};
	return true;
}
