/*
 * Between two rows of the unwind table the return address is at one distance from rsp or rbp. The
 * search first looks for bytes that could be an operand with this distance; most functions have
 * none. Only where it finds some, it decodes the instructions between the two rows.
 */
#include "control/exits/check/exit_body.h"

#include "control/code/decode.h"

#define MODRM_RM 7u
#define MODRM_MOD 6u
#define RM_SIB 4u
#define RM_RBP 5u
#define SIB_RSP 0x24u

/* A stretch of code with one rule: the return address is at [base + disp]. */
struct stretch {
	const uint8_t *bytes;
	uint64_t address, size;
	ZydisRegister base;
	int32_t disp;
};

/* Is the operand with the ModRM byte `modrm`, and its displacement from `at` on, the return
 * address? */
static bool has_disp(const struct stretch *s, uint8_t modrm, uint64_t at)
{
	uint64_t left = s->size - at;

	switch (modrm >> MODRM_MOD) {
	case 0:
		return s->disp == 0;
	case 1:
		return left >= 1 && (int8_t)s->bytes[at] == s->disp;
	case 2: {
		uint32_t disp = 0;

		for (uint64_t i = 0; i < 4 && i < left; i++)
			disp |= (uint32_t)s->bytes[at + i] << 8 * i;
		return left >= 4 && (int32_t)disp == s->disp;
	}
	}
	return false;
}

static bool may_touch(const struct stretch *s)
{
	bool by_rsp = s->base == ZYDIS_REGISTER_RSP;

	for (uint64_t i = 0; i + 1 < s->size; i++) {
		uint8_t modrm = s->bytes[i];

		if (by_rsp ? (modrm & MODRM_RM) == RM_SIB && s->bytes[i + 1] == SIB_RSP &&
				     has_disp(s, modrm, i + 2) :
			     (modrm & MODRM_RM) == RM_RBP && has_disp(s, modrm, i + 1))
			return true;
	}
	return false;
}

static bool touches(const struct stretch *s)
{
	struct insn insn;

	for (uint64_t at = 0; at < s->size; at += insn.length) {
		if (!decode(s->bytes + at, s->size - at, taddr_of(s->address + at), &insn))
			return false;
		for (size_t i = 0; i < insn.zydis.operand_count_visible; i++) {
			const ZydisDecodedOperand *operand = &insn.operands[i];

			if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
			    operand->mem.type == ZYDIS_MEMOP_TYPE_MEM &&
			    operand->mem.base == s->base &&
			    operand->mem.index == ZYDIS_REGISTER_NONE &&
			    operand->mem.segment == ZYDIS_REGISTER_SS &&
			    operand->mem.disp.value == s->disp)
				return true;
		}
	}
	return false;
}

static bool begin_stretch(const struct dt_unwind_row *row, struct stretch *stretch)
{
	if (row->cfa_rule != DT_CFA_RSP && row->cfa_rule != DT_CFA_RBP)
		return false;
	stretch->base = row->cfa_rule == DT_CFA_RSP ? ZYDIS_REGISTER_RSP : ZYDIS_REGISTER_RBP;
	stretch->disp = row->cfa * 8 - 8;
	return true;
}

bool exit_body_touches_return(const struct symtab *symtab, const struct cfi_rows *rows,
			      uint64_t address, uint64_t size)
{
	const struct text_range *text = symtab_text(symtab, address);
	const struct dt_unwind_row *row = cfi_find(rows, address), *end = rows->items + rows->count;

	if (!text || !row || size > text->address + text->size - address)
		return false;
	for (; row < end && row->pc < address + size; row++) {
		uint64_t from = row->pc > address ? row->pc : address;
		uint64_t to =
			row + 1 < end && row[1].pc < address + size ? row[1].pc : address + size;
		struct stretch stretch = { .bytes = text->bytes + (from - text->address),
					   .address = from,
					   .size = to - from };

		if (begin_stretch(row, &stretch) && may_touch(&stretch) && touches(&stretch))
			return true;
	}
	return false;
}
