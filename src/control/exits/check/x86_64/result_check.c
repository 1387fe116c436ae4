#include "control/exits/check/result_check.h"

#include "control/code/decode.h"

static bool writes(const struct insn *insn, ZydisRegister wanted)
{
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
						     operand->reg.value) == wanted)
			return true;
	}
	return false;
}

/* Does the instruction leave the function? Other code may set the register. */
static bool leaves(const struct insn *insn, uint64_t start, uint64_t end)
{
	if (insn->flow == FLOW_JUMP || insn->flow == FLOW_BRANCH)
		return insn->target.v < start || insn->target.v >= end;
	return insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT ||
	       insn->flow == FLOW_JUMP_INDIRECT;
}

bool result_is_set(const struct symtab *symtab, uint64_t start, uint64_t end,
		   const struct abi_piece *piece)
{
	const struct text_range *text = symtab_text(symtab, start);
	ZydisRegister wanted = piece->where == ABI_SSE ? ZYDIS_REGISTER_ZMM0 : ZYDIS_REGISTER_RAX;
	struct insn insn;

	if (!text || end > text->address + text->size || piece->where > ABI_SSE || piece->reg != 0)
		return true;
	for (uint64_t at = start; at < end; at += insn.length) {
		if (!decode(text->bytes + (at - text->address), end - at, taddr_of(at), &insn) ||
		    writes(&insn, wanted) || leaves(&insn, start, end))
			return true;
	}
	return start == end;
}
