#include "control/arguments/register_effect.h"

#include "control/arguments/argument_use.h"

#define WORD 8
#define WHOLE_BITS 32 /* a write of 32 bits clears the other 32 */
#define STACK_FAR (1 << 24) /* no frame is that large */

/* A register's bit in struct register_effect, and those of three others. */
enum { BIT_RAX = 1 << 6, BIT_RBP = 1 << 7, BIT_RSP = 1 << 8 };

/* The bits of each register and of its parts. Made before any thread starts: Zydis takes longer to
 * tell than to decode. */
static uint16_t bits[ZYDIS_REGISTER_MAX_VALUE + 1];

__attribute__((constructor)) static void make_bits(void)
{
	static const ZydisRegister order[] = {
		ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDX,
		ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_R8,	ZYDIS_REGISTER_R9,
		ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_RSP,
	};

	for (int part = 0; part <= ZYDIS_REGISTER_MAX_VALUE; part++) {
		ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
								       (ZydisRegister)part);

		for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
			if (whole == order[i])
				bits[part] = (uint16_t)(1u << i);
		}
	}
}

static uint16_t all_bits_of(ZydisRegister part)
{
	return part <= ZYDIS_REGISTER_MAX_VALUE ? bits[part] : 0;
}

/* The bit of the argument register that `part` is, or is a part of; 0: it is none. */
static uint8_t bit_of(ZydisRegister part)
{
	return (uint8_t)(all_bits_of(part) & ARGUMENTS_ALL);
}

/* xor edi, edi; sbb edi, edi: the result doesn't depend on the register. */
static bool ignores_operand(const struct insn *insn)
{
	ZydisMnemonic mnemonic = insn->zydis.mnemonic;

	return (mnemonic == ZYDIS_MNEMONIC_XOR || mnemonic == ZYDIS_MNEMONIC_SUB ||
		mnemonic == ZYDIS_MNEMONIC_SBB) &&
	       insn->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       insn->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       insn->operands[0].reg.value == insn->operands[1].reg.value;
}

/* Only a write of the whole register, whatever the flags are, hides the caller's value. */
static bool overwrites(const ZydisDecodedOperand *operand)
{
	return (operand->actions & ZYDIS_OPERAND_ACTION_WRITE) && operand->size >= WHOLE_BITS;
}

/* bsf leaves its result alone if its operand is 0, and compilers count on that. */
static bool may_leave_result(ZydisMnemonic mnemonic)
{
	return mnemonic == ZYDIS_MNEMONIC_BSF || mnemonic == ZYDIS_MNEMONIC_BSR ||
	       mnemonic == ZYDIS_MNEMONIC_LAR || mnemonic == ZYDIS_MNEMONIC_LSL;
}

static void note_operand(const ZydisDecodedOperand *operand, struct register_effect *effect)
{
	if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		effect->reads |= bit_of(operand->mem.base) | bit_of(operand->mem.index);
	} else if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		if (operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
			effect->reads |= bit_of(operand->reg.value);
		if (overwrites(operand))
			effect->writes |= bit_of(operand->reg.value);
	}
}

/* Other programs see all registers at a trap. */
static bool is_unknown(const struct insn *insn)
{
	switch (insn->zydis.meta.category) {
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSTEM:
	case ZYDIS_CATEGORY_VTX:
		return insn->zydis.mnemonic != ZYDIS_MNEMONIC_UD2 &&
		       insn->zydis.mnemonic != ZYDIS_MNEMONIC_HLT &&
		       insn->zydis.mnemonic != ZYDIS_MNEMONIC_SYSCALL &&
		       insn->zydis.mnemonic != ZYDIS_MNEMONIC_RDTSC &&
		       insn->zydis.mnemonic != ZYDIS_MNEMONIC_RDTSCP;
	default:
		return false;
	}
}

/* ---- the stack ------------------------------------------------------------------------------- */

static int32_t moved(int32_t from, int64_t by)
{
	if (from == STACK_UNKNOWN || by > STACK_FAR || by < -STACK_FAR ||
	    from + by > STACK_FAR || from + by < -STACK_FAR)
		return STACK_UNKNOWN;
	return (int32_t)(from + by);
}

/* Where a plain operand [rsp + x] or [rbp + x] is, from the return address. */
static int32_t place_of(const ZydisDecodedOperand *operand, const struct stack_state *stack)
{
	if (operand->type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    operand->mem.index != ZYDIS_REGISTER_NONE)
		return STACK_UNKNOWN;
	if (operand->mem.base == ZYDIS_REGISTER_RSP)
		return moved(stack->rsp, operand->mem.disp.value);
	if (operand->mem.base == ZYDIS_REGISTER_RBP)
		return moved(stack->rbp, operand->mem.disp.value);
	return STACK_UNKNOWN;
}

/* Does the instruction write the return address, or take its place? push and call write below
 * rsp, and are judged by where rsp is. */
static bool touches_return(const struct insn *insn, const struct stack_state *stack)
{
	for (size_t i = 0; i < insn->zydis.operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];
		int32_t place = place_of(operand, stack);
		bool writes = operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;

		if (place == STACK_UNKNOWN || place >= WORD)
			continue;
		if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_POP) /* [rsp + x] behind the pop */
			return true;
		if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_LEA ?
			    place == 0 &&
				    all_bits_of(insn->operands[0].reg.value) != BIT_RSP :
			    writes && place + operand->size / 8 > 0)
			return true;
	}
	return false;
}

static bool is_register(const ZydisDecodedOperand *operand, ZydisRegister wanted)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER && operand->reg.value == wanted;
}

/* The value that the instruction gives to its first operand, if it is a place on the stack. */
static int32_t stack_result(const struct insn *insn, const struct stack_state *before)
{
	const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
	int64_t sign = insn->zydis.mnemonic == ZYDIS_MNEMONIC_SUB ? -1 : 1;

	switch (insn->zydis.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		if (from->type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
			return STACK_UNKNOWN;
		return moved(is_register(to, ZYDIS_REGISTER_RSP) ? before->rsp : before->rbp,
			     sign * from->imm.value.s);
	case ZYDIS_MNEMONIC_LEA:
		return place_of(from, before);
	case ZYDIS_MNEMONIC_MOV:
		if (is_register(from, ZYDIS_REGISTER_RSP))
			return before->rsp;
		return is_register(from, ZYDIS_REGISTER_RBP) ? before->rbp : STACK_UNKNOWN;
	default:
		return STACK_UNKNOWN;
	}
}

/* The bits of the registers that the instruction writes, or may write. */
static uint16_t written_by(const struct insn *insn)
{
	uint16_t written = 0;

	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			written |= all_bits_of(operand->reg.value);
	}
	return written;
}

/* Bytes by which push, pop and the like move rsp; 0: another instruction. */
static int32_t implied_move(const struct insn *insn)
{
	switch (insn->zydis.mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHFQ:
		return insn->zydis.operand_width == 16 ? -2 : -WORD;
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_POPFQ:
		return insn->zydis.operand_width == 16 ? 2 : WORD;
	default:
		return 0;
	}
}

static void move_stack(const struct insn *insn, uint16_t written, struct stack_state *stack)
{
	const struct stack_state before = *stack;
	int32_t implied = implied_move(insn);

	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT ||
	    insn->flow == FLOW_RETURN)
		return;
	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_LEAVE) {
		*stack = (struct stack_state){ .rsp = moved(before.rbp, WORD),
					       .rbp = STACK_UNKNOWN };
		return;
	}
	if (implied && insn->zydis.mnemonic == ZYDIS_MNEMONIC_POP &&
	    insn->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    all_bits_of(insn->operands[0].reg.value) == BIT_RSP)
		implied = 0;
	if (implied)
		stack->rsp = moved(before.rsp, implied);
	else if (written & BIT_RSP)
		stack->rsp = is_register(&insn->operands[0], ZYDIS_REGISTER_RSP) ?
				     stack_result(insn, &before) :
				     STACK_UNKNOWN;
	if (written & BIT_RBP)
		stack->rbp = is_register(&insn->operands[0], ZYDIS_REGISTER_RBP) && !implied ?
				     stack_result(insn, &before) :
				     STACK_UNKNOWN;
}

static bool asks_vectors(const struct insn *insn)
{
	return insn->zydis.mnemonic == ZYDIS_MNEMONIC_TEST &&
	       is_register(&insn->operands[0], ZYDIS_REGISTER_AL) &&
	       is_register(&insn->operands[1], ZYDIS_REGISTER_AL);
}

/* A variadic function stores its argument registers side by side. */
static void note_save(const struct insn *insn, const struct stack_state *stack,
		      struct register_effect *effect)
{
	const ZydisDecodedOperand *from = &insn->operands[1];
	int32_t place = place_of(&insn->operands[0], stack);
	uint8_t bit;

	if (insn->zydis.mnemonic != ZYDIS_MNEMONIC_MOV || place == STACK_UNKNOWN ||
	    from->type != ZYDIS_OPERAND_TYPE_REGISTER || from->size != 64)
		return;
	bit = bit_of(from->reg.value);
	if (!bit)
		return;
	effect->saves = bit;
	effect->save_area = place - WORD * __builtin_ctz(bit);
	effect->slot = place;
}

/* The argument register that a whole operand is; 0: none. */
static uint8_t whole_register(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER && operand->size == 64 ?
		       bit_of(operand->reg.value) :
		       0;
}

/* `before` and `stack`: around the instruction. */
static void note_slot(const struct insn *insn, const struct stack_state *before,
		      const struct stack_state *stack, struct register_effect *effect)
{
	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_PUSH) {
		effect->pushes = whole_register(&insn->operands[0]);
		effect->slot = stack->rsp;
	} else if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_POP) {
		effect->loads = whole_register(&insn->operands[0]);
		effect->slot = before->rsp;
	} else if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_MOV &&
		   insn->operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY) {
		effect->loads = whole_register(&insn->operands[0]);
		effect->slot = place_of(&insn->operands[1], before);
	}
	if (effect->slot == STACK_UNKNOWN)
		effect->pushes = effect->loads = 0;
}

struct register_effect register_effect_of(const struct insn *insn, struct stack_state *stack)
{
	struct register_effect effect = { 0 };
	const struct stack_state before = *stack;
	bool clears = ignores_operand(insn);
	uint16_t written = written_by(insn);

	if (insn->zydis.meta.category == ZYDIS_CATEGORY_NOP ||
	    insn->zydis.meta.category == ZYDIS_CATEGORY_WIDENOP)
		return effect;
	for (size_t i = 0; i < insn->zydis.operand_count; i++)
		note_operand(&insn->operands[i], &effect);
	if (clears)
		effect.reads = 0;
	if (may_leave_result(insn->zydis.mnemonic))
		effect.writes = 0;
	effect.enters_kernel = insn->zydis.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
	effect.is_opaque = is_unknown(insn) || touches_return(insn, stack);
	note_save(insn, stack, &effect);
	effect.asks_vectors = asks_vectors(insn);
	effect.touches = (uint8_t)(written & ARGUMENTS_ALL);
	effect.writes_rax = written & BIT_RAX;
	move_stack(insn, written, stack);
	note_slot(insn, &before, stack, &effect);
	if (stack->rsp != STACK_UNKNOWN && stack->rsp > 0)
		effect.is_opaque = true;
	return effect;
}
