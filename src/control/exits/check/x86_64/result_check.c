#include "control/exits/check/result_check.h"

#include "control/code/decode.h"

static ZydisRegister result_register(const struct abi_piece *piece)
{
	return piece->where == ABI_SSE ? ZYDIS_REGISTER_ZMM0 : ZYDIS_REGISTER_RAX;
}

static bool is_in(ZydisRegister part, ZydisRegister wanted)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part) == wanted;
}

static bool writes(const struct insn *insn, ZydisRegister wanted)
{
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
		    is_in(operand->reg.value, wanted))
			return true;
	}
	return false;
}

/* xor eax, eax: a zero, whatever the register held. */
static bool clears(const struct insn *insn)
{
	ZydisMnemonic mnemonic = insn->zydis.mnemonic;

	return (mnemonic == ZYDIS_MNEMONIC_XOR || mnemonic == ZYDIS_MNEMONIC_SUB ||
		mnemonic == ZYDIS_MNEMONIC_PXOR || mnemonic == ZYDIS_MNEMONIC_XORPS ||
		mnemonic == ZYDIS_MNEMONIC_XORPD) &&
	       insn->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       insn->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       insn->operands[0].reg.value == insn->operands[1].reg.value;
}

static bool reads(const struct insn *insn, ZydisRegister wanted)
{
	if (clears(insn))
		return false;
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (is_in(operand->mem.base, wanted) || is_in(operand->mem.index, wanted)))
			return true;
		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ) &&
		    is_in(operand->reg.value, wanted))
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
	ZydisRegister wanted = result_register(piece);
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

/* ---- callers --------------------------------------------------------------------------------- */

#define FOLLOWED_MAX 64u /* instructions behind a call; results are looked at soon */
#define BRANCHES_MAX 8u
#define CALL_BYTE 0xe8
#define CALL_LENGTH 5u

struct use_walk {
	const struct text_range *text;
	ZydisRegister wanted;
	result_has_result *has_result;
	void *context;
	uint64_t left[BRANCHES_MAX]; /* targets of branches, still to be followed */
	size_t left_count;
};

/* Follows one path until the register is read or overwritten. */
static bool path_reads(struct use_walk *walk, uint64_t at, uint32_t *budget)
{
	const struct text_range *text = walk->text;
	struct insn insn;

	for (; *budget; --*budget) {
		if (at - text->address >= text->size ||
		    !decode(text->bytes + (at - text->address), text->address + text->size - at,
			    taddr_of(at), &insn))
			return false;
		if (insn.flow == FLOW_RETURN)
			return walk->has_result(walk->context, at);
		if (insn.flow == FLOW_CALL || insn.flow == FLOW_CALL_INDIRECT ||
		    insn.flow == FLOW_STOP)
			return insn.flow == FLOW_CALL_INDIRECT && reads(&insn, walk->wanted);
		if (reads(&insn, walk->wanted))
			return true;
		if (insn.flow == FLOW_JUMP_INDIRECT || writes(&insn, walk->wanted))
			return false;
		if (insn.flow == FLOW_BRANCH && walk->left_count < BRANCHES_MAX)
			walk->left[walk->left_count++] = insn.target.v;
		at = insn.flow == FLOW_JUMP ? insn.target.v : at + insn.length;
	}
	return false;
}

static bool caller_reads(struct use_walk *walk, uint64_t behind_call)
{
	uint32_t budget = FOLLOWED_MAX;

	walk->left_count = 0;
	if (path_reads(walk, behind_call, &budget))
		return true;
	for (size_t i = 0; i < walk->left_count; i++) {
		if (path_reads(walk, walk->left[i], &budget))
			return true;
	}
	return false;
}

/* Bytes that look like a call or jump can be in the middle of an instruction. */
static bool is_instruction(const struct symtab *symtab, const struct text_range *text,
			   uint64_t address)
{
	uint64_t at, end;
	struct insn insn;

	if (!symtab_fde(symtab, address, &at, &end) || at < text->address)
		return true;
	while (at < address && decode_quick(text->bytes + (at - text->address), address - at + 1,
					    taddr_of(at), &insn))
		at += insn.length;
	return at == address;
}

enum result_use result_use(const struct symtab *symtab, uint64_t function,
			   const struct abi_piece *piece, result_has_result *has_result,
			   void *context)
{
	struct use_walk walk = { .wanted = result_register(piece),
				 .has_result = has_result,
				 .context = context };
	enum result_use use = RESULT_NOT_CALLED;
	size_t count;
	const struct symtab_jump *jumps = symtab_jumps_to(symtab, function, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t from = jumps[i].from;

		walk.text = symtab_text(symtab, from);
		if (!is_instruction(symtab, walk.text, from))
			continue;
		use = RESULT_IGNORED;
		if (walk.text->bytes[from - walk.text->address] == CALL_BYTE ?
			    caller_reads(&walk, from + CALL_LENGTH) :
			    has_result(context, from))
			return RESULT_USED;
	}
	return use;
}
