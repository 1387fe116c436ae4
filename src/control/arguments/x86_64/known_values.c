#include "control/arguments/known_values.h"

#include <string.h>

#define NO_REGISTER 16u
#define ENTRIES_MAX 1024u /* of a jump table */
#define CALLER_SAVED 0x0fc7u /* rax, rcx, rdx, rsi, rdi, r8 to r11, by their numbers */
#define NUMBER_MAX INT32_MAX /* of a comparison: signed and unsigned mean the same */

/* The number of each register that a register is a part of. Made before any thread starts. */
static uint8_t numbers[ZYDIS_REGISTER_MAX_VALUE + 1];

__attribute__((constructor)) static void make_numbers(void)
{
	for (int part = 0; part <= ZYDIS_REGISTER_MAX_VALUE; part++) {
		ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
								       (ZydisRegister)part);

		numbers[part] = whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15 ?
					(uint8_t)(whole - ZYDIS_REGISTER_RAX) :
					NO_REGISTER;
	}
}

static uint8_t number_of(ZydisRegister part)
{
	return part <= ZYDIS_REGISTER_MAX_VALUE ? numbers[part] : NO_REGISTER;
}

static bool is_high_byte(ZydisRegister reg)
{
	return reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH;
}

/* The register that an operand is, as its lowest bits; NO_REGISTER: something else. */
static uint8_t register_of(const ZydisDecodedOperand *operand)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER || is_high_byte(operand->reg.value))
		return NO_REGISTER;
	return number_of(operand->reg.value);
}

/* ---- the list -------------------------------------------------------------------------------- */

static struct known_value find(const struct known_values *known, uint8_t reg)
{
	for (size_t i = 0; i < KNOWN_MAX; i++) {
		if (known->items[i].kind != KNOWN_NOTHING && known->items[i].reg == reg)
			return known->items[i];
	}
	return (struct known_value){ .kind = KNOWN_NOTHING };
}

static void forget(struct known_values *known, uint8_t reg)
{
	for (size_t i = 0; i < KNOWN_MAX; i++) {
		if (known->items[i].reg == reg)
			known->items[i] = (struct known_value){ .kind = KNOWN_NOTHING };
	}
}

static void note(struct known_values *known, const struct known_value *value)
{
	size_t at = known->oldest;

	forget(known, value->reg);
	for (size_t i = 0; i < KNOWN_MAX; i++) {
		if (known->items[i].kind == KNOWN_NOTHING) {
			known->items[i] = *value;
			return;
		}
	}
	known->items[at] = *value;
	known->oldest = (uint8_t)((at + 1) % KNOWN_MAX);
}

/* The facts that hold for both; false: none do. */
static bool widen(struct known_value *value, const struct known_value *other)
{
	if (value->kind != other->kind || value->width != other->width ||
	    value->value != other->value || value->base != other->base)
		return false;
	if (other->most > value->most)
		value->most = other->most;
	value->is_loose |= other->is_loose;
	return true;
}

bool known_join(struct known_values *known, const struct known_values *other)
{
	const struct known_compare *a = &known->compare, *b = &other->compare;
	bool lost = false;

	for (size_t i = 0; i < KNOWN_MAX; i++) {
		struct known_value *item = &known->items[i];
		const struct known_value before = *item, theirs = find(other, item->reg);

		if (item->kind == KNOWN_NOTHING)
			continue;
		if (!widen(item, &theirs))
			*item = (struct known_value){ .kind = KNOWN_NOTHING };
		lost |= item->kind != before.kind || item->most != before.most ||
			item->is_loose != before.is_loose;
	}
	if (a->stands &&
	    (!b->stands || a->reg != b->reg || a->width != b->width || a->number != b->number)) {
		known->compare.stands = false;
		lost = true;
	}
	return lost;
}

bool known_number(const struct known_values *known, ZydisRegister reg, uint64_t *ret_number)
{
	struct known_value value = find(known, number_of(reg));

	if (value.kind != KNOWN_NUMBER)
		return false;
	*ret_number = value.value;
	return true;
}

/* ---- what instructions make ------------------------------------------------------------------ */

static uint32_t most_of(unsigned width)
{
	return width >= 32 ? UINT32_MAX : (1u << width) - 1;
}

static struct known_value bound(unsigned width, uint32_t most)
{
	return (struct known_value){ .kind = KNOWN_BOUND, .width = (uint8_t)width, .most = most };
}

static struct known_value loose_bound(unsigned width, uint32_t most)
{
	struct known_value value = bound(width, most);

	value.is_loose = true;
	return value;
}

static struct known_value number(uint64_t value, unsigned size)
{
	return (struct known_value){ .kind = KNOWN_NUMBER,
				     .value = size == 32 ? (uint32_t)value : value };
}

/* The table that [base + index * 4] reads, if the base is a number and the index is bounded. */
static struct known_value load_entry(const struct known_values *known,
				     const ZydisDecodedOperand *from)
{
	struct known_value base = find(known, number_of(from->mem.base));
	struct known_value index = find(known, number_of(from->mem.index));

	if (from->size != 32 || from->mem.scale != 4 || from->mem.segment != ZYDIS_REGISTER_DS ||
	    base.kind != KNOWN_NUMBER || index.kind != KNOWN_BOUND || index.width != 32)
		return (struct known_value){ .kind = KNOWN_NOTHING };
	return (struct known_value){ .kind = KNOWN_ENTRY,
				     .is_loose = index.is_loose,
				     .most = index.most,
				     .value = base.value + (uint64_t)from->mem.disp.value };
}

/* A register's copy, of 32 bits or 64. */
static struct known_value copy(const struct known_values *known, const ZydisDecodedOperand *from)
{
	struct known_value value = find(known, register_of(from));

	if (value.kind == KNOWN_NUMBER && from->size == 32)
		value.value = (uint32_t)value.value;
	if (from->size < 32 || (from->size == 32 && value.kind > KNOWN_BOUND))
		value.kind = KNOWN_NOTHING;
	return value;
}

static struct known_value zero_extend(const struct known_values *known,
				      const ZydisDecodedOperand *from)
{
	struct known_value value = find(known, register_of(from));
	uint32_t most = most_of(from->size);

	if (value.kind != KNOWN_BOUND || (value.width != 32 && value.width != from->size) ||
	    value.most > most)
		return loose_bound(32, most);
	value.width = 32;
	return value;
}

/* movsxd: of memory, or of a register whose highest bit is 0. */
static struct known_value sign_extend(const struct known_values *known,
				      const ZydisDecodedOperand *from)
{
	struct known_value value;

	if (from->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return load_entry(known, from);
	value = copy(known, from);
	if (value.kind != KNOWN_BOUND || value.width != 32 || value.most > INT32_MAX)
		value.kind = KNOWN_NOTHING;
	return value;
}

static struct known_value add(struct known_value a, struct known_value b)
{
	struct known_value entry = a.kind == KNOWN_ENTRY ? a : b;
	struct known_value base = a.kind == KNOWN_ENTRY ? b : a;

	if (entry.kind != KNOWN_ENTRY || base.kind != KNOWN_NUMBER)
		return (struct known_value){ .kind = KNOWN_NOTHING };
	entry.kind = KNOWN_TARGET;
	entry.base = base.value;
	return entry;
}

/* lea: an address in the file, or a sum of two registers. */
static struct known_value lea(const struct known_values *known, const struct insn *insn)
{
	const ZydisDecodedOperand *from = &insn->operands[1];

	if (insn->operands[0].size == 64 && insn->rip_relative)
		return number(insn->rip_target.v, 64);
	if (insn->operands[0].size != 64 || from->mem.disp.value || from->mem.scale != 1)
		return (struct known_value){ .kind = KNOWN_NOTHING };
	return add(find(known, number_of(from->mem.base)), find(known, number_of(from->mem.index)));
}

static struct known_value and_mask(const struct insn *insn)
{
	const ZydisDecodedOperand *mask = &insn->operands[1];
	unsigned size = insn->operands[0].size;

	if (mask->type != ZYDIS_OPERAND_TYPE_IMMEDIATE || mask->imm.value.s < 0 ||
	    mask->imm.value.s > NUMBER_MAX)
		return (struct known_value){ .kind = KNOWN_NOTHING };
	return loose_bound(size < 32 ? size : 32, (uint32_t)mask->imm.value.u & most_of(size));
}

/* The value of the first operand, a register, behind the instruction. */
static struct known_value result_of(const struct known_values *known, const struct insn *insn)
{
	const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];

	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_AND)
		return and_mask(insn);
	if (to->size < 32)
		return (struct known_value){ .kind = KNOWN_NOTHING };
	switch (insn->zydis.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		return from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE ?
			       number(from->imm.value.u, to->size) :
			       copy(known, from);
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_SUB:
		if (register_of(to) != NO_REGISTER && from->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    from->reg.value == to->reg.value)
			return number(0, to->size);
		break;
	case ZYDIS_MNEMONIC_LEA:
		return lea(known, insn);
	case ZYDIS_MNEMONIC_MOVZX:
		return zero_extend(known, from);
	case ZYDIS_MNEMONIC_MOVSXD:
		return sign_extend(known, from);
	case ZYDIS_MNEMONIC_ADD:
		if (to->size == 64)
			return add(find(known, register_of(to)), find(known, register_of(from)));
		break;
	default:
		break;
	}
	return (struct known_value){ .kind = KNOWN_NOTHING };
}

static bool changes_flags(const struct insn *insn)
{
	const ZydisAccessedFlags *flags = insn->zydis.cpu_flags;

	return !flags || flags->modified || flags->set_0 || flags->set_1 || flags->undefined;
}

static void forget_written(struct known_values *known, const struct insn *insn)
{
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];
		uint8_t reg;

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		reg = number_of(operand->reg.value);
		forget(known, reg);
		if (known->compare.reg == reg)
			known->compare.stands = false;
	}
}

/* A called function, and the kernel, keep the registers that the ABI has them keep. */
static void forget_called(struct known_values *known)
{
	for (uint8_t reg = 0; reg < NO_REGISTER; reg++) {
		if (CALLER_SAVED >> reg & 1)
			forget(known, reg);
	}
	known->compare.stands = false;
}

static void note_compare(struct known_values *known, const struct insn *insn)
{
	const ZydisDecodedOperand *a = &insn->operands[0], *b = &insn->operands[1];

	known->compare.stands = false;
	if (insn->zydis.mnemonic != ZYDIS_MNEMONIC_CMP || register_of(a) == NO_REGISTER ||
	    b->type != ZYDIS_OPERAND_TYPE_IMMEDIATE || b->imm.value.s > NUMBER_MAX)
		return;
	if (b->imm.value.s < 0 && a->size >= 32)
		return;
	known->compare =
		(struct known_compare){ .stands = true,
					.reg = register_of(a),
					.width = a->size < 32 ? (uint8_t)a->size : 32,
					.number = (uint32_t)b->imm.value.u & most_of(a->size) };
}

/* The compared register is at most that number. */
static void note_bound(struct known_values *known, uint32_t most)
{
	unsigned width = known->compare.width;
	struct known_value value = find(known, known->compare.reg);

	if (value.kind > KNOWN_BOUND || value.kind == KNOWN_NUMBER)
		return;
	if (value.kind == KNOWN_BOUND && value.width == 32 && value.most < most)
		return;
	if (value.kind == KNOWN_BOUND && value.width == 32 && value.most <= most_of(width))
		value = bound(32, most);
	else
		value = bound(width, most);
	value.reg = known->compare.reg;
	note(known, &value);
}

static void branch(struct known_values *known, const struct insn *insn,
		   struct known_values *ret_taken)
{
	uint32_t number = known->compare.number;

	*ret_taken = *known;
	if (!known->compare.stands)
		return;
	switch (insn->zydis.mnemonic) {
	case ZYDIS_MNEMONIC_JNBE:
		note_bound(known, number);
		break;
	case ZYDIS_MNEMONIC_JBE:
		note_bound(ret_taken, number);
		break;
	case ZYDIS_MNEMONIC_JNB:
		if (number)
			note_bound(known, number - 1);
		break;
	case ZYDIS_MNEMONIC_JB:
		if (number)
			note_bound(ret_taken, number - 1);
		break;
	default:
		break;
	}
}

void known_step(struct known_values *known, const struct insn *insn, struct known_values *ret_taken)
{
	struct known_value value = { .kind = KNOWN_NOTHING };
	uint8_t to;

	if (insn->flow == FLOW_BRANCH) {
		branch(known, insn, ret_taken);
		forget_written(known, insn); /* loop */
		forget_written(ret_taken, insn);
		return;
	}
	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT ||
	    insn->zydis.mnemonic == ZYDIS_MNEMONIC_SYSCALL) {
		forget_called(known);
		return;
	}
	to = insn->zydis.operand_count ? register_of(&insn->operands[0]) : NO_REGISTER;
	if (to != NO_REGISTER && (insn->operands[0].actions & ZYDIS_OPERAND_ACTION_WRITE))
		value = result_of(known, insn);
	forget_written(known, insn);
	if (changes_flags(insn))
		note_compare(known, insn);
	if (value.kind != KNOWN_NOTHING) {
		value.reg = to;
		note(known, &value);
	}
}

/* ---- jumps ----------------------------------------------------------------------------------- */

/* jmp [base + index * 8] */
static bool read_pointers(const struct known_values *known, const ZydisDecodedOperand *operand,
			  struct jump_table *ret_table)
{
	struct known_value index = find(known, number_of(operand->mem.index));
	struct known_value base = find(known, number_of(operand->mem.base));

	if (operand->mem.scale != 8 || operand->mem.segment != ZYDIS_REGISTER_DS ||
	    index.kind != KNOWN_BOUND || index.width != 32 || index.most >= ENTRIES_MAX ||
	    (operand->mem.base != ZYDIS_REGISTER_NONE && base.kind != KNOWN_NUMBER))
		return false;
	*ret_table = (struct jump_table){ .at = base.value + (uint64_t)operand->mem.disp.value,
					  .count = index.most + 1,
					  .width = 8,
					  .is_loose = index.is_loose };
	return true;
}

bool known_jump(const struct known_values *known, const struct insn *insn,
		struct jump_table *ret_table)
{
	const ZydisDecodedOperand *operand = &insn->operands[0];
	struct known_value value;

	if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return read_pointers(known, operand, ret_table);
	value = find(known, register_of(operand));
	if (value.kind != KNOWN_TARGET || value.most >= ENTRIES_MAX)
		return false;
	*ret_table = (struct jump_table){ .at = value.value,
					  .base = value.base,
					  .count = value.most + 1,
					  .width = 4,
					  .is_loose = value.is_loose };
	return true;
}

bool jump_table_target(const struct symtab *symtab, const struct jump_table *table, uint32_t index,
		       uint64_t *ret_target)
{
	uint64_t at = table->at + (uint64_t)index * table->width, word = 0;
	int32_t distance;

	if (symtab_data(symtab, at, &word, table->width) != table->width)
		return false;
	memcpy(&distance, &word, sizeof(distance));
	*ret_target = table->width == 8 ? word : table->base + (uint64_t)(int64_t)distance;
	return symtab_text(symtab, *ret_target) != NULL;
}
