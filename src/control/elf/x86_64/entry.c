/*
 * entry.c - finds main of a program without symbols.
 *
 * The first argument of __libc_start_main is main's address, and the C library's start code, at the
 * program's entry point, is a straight line of instructions that puts it into rdi:
 *
 *	glibc	lea rdi, [rip + main]	or: mov rdi, main	or: mov rdi, [rip + slot in the GOT]
 *		call __libc_start_main
 *	musl	mov rdi, rsp; ...; call _start_c, which does the above
 *
 * Walk that line, remember the value of rdi if known, and check it at every call. Follow a direct
 * call with an unknown rdi, one level deep.
 */
#include "control/code/decode.h"
#include "control/elf/symtab_state.h"

#define STEPS_MAX 64
#define DEPTH_MAX 2

struct walk {
	const struct symtab *symtab;
	bool known; /* rdi holds `value` */
	uint64_t value;
};

static bool is_rdi(ZydisRegister reg)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg) ==
	       ZYDIS_REGISTER_RDI;
}

static bool writes_rdi(const struct insn *insn)
{
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *o = &insn->operands[i];

		if (o->type == ZYDIS_OPERAND_TYPE_REGISTER && is_rdi(o->reg.value) &&
		    (o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			return true;
	}
	return false;
}

/* The value that the instruction leaves in rdi; false: not a plain value. */
static bool value_of(const struct symtab *symtab, const struct insn *insn, uint64_t *ret_value)
{
	const ZydisDecodedOperand *from = &insn->operands[1];

	if (insn->operands[0].size < 32)
		return false;
	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_LEA && insn->rip_relative) {
		*ret_value = insn->rip_target.v;
		return true;
	}
	if (insn->zydis.mnemonic != ZYDIS_MNEMONIC_MOV)
		return false;
	if (from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		*ret_value = from->imm.value.u;
		return true;
	}
	return insn->rip_relative && insn->operands[0].size == 64 &&
	       relocs_read_word(symtab, insn->rip_target.v, ret_value);
}

static void step(struct walk *walk, const struct insn *insn)
{
	uint64_t value;

	if (!writes_rdi(insn))
		return;
	walk->known = value_of(walk->symtab, insn, &value);
	if (walk->known)
		walk->value = value;
}

/* Can the address be main? It is code, and not the middle of a function. */
static bool is_function(const struct symtab *symtab, uint64_t address)
{
	const struct range *fde;

	if (!elf_image_is_executable(&symtab->image, address) ||
	    address == symtab->image.header.e_entry)
		return false;
	fde = ranges_find(symtab_fdes(symtab), address);
	return !fde || fde->start == address;
}

static bool fetch(const struct symtab *symtab, uint64_t pc, struct insn *ret_insn)
{
	uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
	size_t n;

	if (!elf_image_is_executable(&symtab->image, pc))
		return false;
	n = elf_image_read(&symtab->image, pc, bytes, sizeof(bytes));
	return decode(bytes, n, taddr_of(pc), ret_insn);
}

static bool walk_code(struct walk *walk, uint64_t pc, unsigned depth, uint64_t *ret_main)
{
	struct insn insn;

	for (int i = 0; i < STEPS_MAX && fetch(walk->symtab, pc, &insn); i++) {
		bool transfers = insn.flow == FLOW_CALL || insn.flow == FLOW_CALL_INDIRECT ||
				 insn.flow == FLOW_JUMP || insn.flow == FLOW_JUMP_INDIRECT;

		if (transfers && walk->known && is_function(walk->symtab, walk->value)) {
			*ret_main = walk->value;
			return true;
		}
		if (insn.flow == FLOW_CALL && depth + 1 < DEPTH_MAX) {
			if (walk_code(walk, insn.target.v, depth + 1, ret_main))
				return true;
		}
		if (insn.flow == FLOW_CALL || insn.flow == FLOW_CALL_INDIRECT)
			walk->known = false;
		if (insn.flow == FLOW_JUMP_INDIRECT || insn.flow == FLOW_RETURN ||
		    insn.flow == FLOW_STOP)
			return false;
		step(walk, &insn);
		pc = insn.flow == FLOW_JUMP ? insn.target.v : pc + insn.length;
	}
	return false;
}

bool entry_find_main(const struct symtab *symtab, uint64_t *ret_address)
{
	struct walk walk = { .symtab = symtab };

	if (!elf_image_is_program(&symtab->image))
		return false;
	return walk_code(&walk, symtab->image.header.e_entry, 0, ret_address);
}
