/*
 * call_number.c - follows constants through the registers of a function.
 *
 * libgomp loads the number of futex into a register once, and copies it to eax before each call, in
 * loops. So straight code isn't enough: the states of all instructions are found together, by going
 * over the function until none changes. A register only ever gets from "not reached" to a number,
 * and from there to "unknown", so this ends.
 */
#include "call_number.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/code/prescan.h"

#define REGISTERS 16
#define ACCUMULATOR 0 /* rax, as Zydis numbers registers */
#define INSNS_MAX 20000
/* rax, rcx, rdx, rsi, rdi, r8 to r11, which a called function may change; rax, rcx, r11 */
#define CHANGED_BY_CALLS 0x0fc7u
#define CHANGED_BY_SYSCALL 0x0803u
#define ALL_REGISTERS 0xffffu

/* What is known of the registers before an instruction, of their low 32 bits. */
struct state {
	uint32_t values[REGISTERS];
	uint16_t known;
	bool reached;
};

/* What an instruction does. */
struct step {
	uint16_t loses; /* registers with another value after it */
	int8_t to, from; /* copies a register; -1: doesn't */
	bool sets; /* loads `value` into `to` */
	uint32_t value;
	size_t target; /* the instruction that it jumps to; SIZE_MAX: none in this function */
	bool goes_on;
};

/* -1: no general register, or a part of one that leaves the rest as it was. */
static int8_t register_of(const ZydisDecodedOperand *operand)
{
	ZydisRegisterClass class;

	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return -1;
	class = ZydisRegisterGetClass(operand->reg.value);
	return class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_GPR64 ?
		       ZydisRegisterGetId(operand->reg.value) :
		       -1;
}

/* All registers that the operand has written, wholly or in part. */
static uint16_t written_by(const ZydisDecodedOperand *operand)
{
	ZydisRegister whole;

	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		return 0;
	whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value);
	return ZydisRegisterGetClass(whole) == ZYDIS_REGCLASS_GPR64 ?
		       (uint16_t)(1u << ZydisRegisterGetId(whole)) :
		       0;
}

static uint16_t lost_by(const struct insn *insn)
{
	uint16_t lost = 0;

	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT)
		return CHANGED_BY_CALLS;
	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_SYSCALL)
		return CHANGED_BY_SYSCALL;
	if (insn->zydis.meta.category == ZYDIS_CATEGORY_INTERRUPT ||
	    insn->zydis.meta.category == ZYDIS_CATEGORY_SYSCALL)
		return ALL_REGISTERS;
	for (size_t i = 0; i < insn->zydis.operand_count; i++)
		lost |= written_by(&insn->operands[i]);
	return lost;
}

/* mov $number, r; xor r, r; mov r, r */
static void read_value(const struct insn *insn, struct step *step)
{
	const ZydisDecodedOperand *to = &insn->operands[0], *from = &insn->operands[1];
	ZydisMnemonic mnemonic = insn->zydis.mnemonic;

	step->to = step->from = -1;
	if (mnemonic != ZYDIS_MNEMONIC_MOV && mnemonic != ZYDIS_MNEMONIC_XOR)
		return;
	step->to = register_of(to);
	if (mnemonic == ZYDIS_MNEMONIC_MOV && from->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		step->sets = true;
		step->value = (uint32_t)from->imm.value.u;
	} else if (mnemonic == ZYDIS_MNEMONIC_MOV) {
		step->from = register_of(from);
	} else {
		step->sets = from->type == ZYDIS_OPERAND_TYPE_REGISTER &&
			     from->reg.value == to->reg.value;
	}
	if (!step->sets && step->from < 0)
		step->to = -1;
}

/* False: the instruction can't be read, or jumps into the middle of another. */
static bool read_step(const struct body *body, size_t index, struct step *step)
{
	const struct body_insn *item = &body->insns.items[index];
	struct insn insn;

	if (!decode(body->text->bytes + (item->at - body->text->address), item->length,
		    taddr_of(item->at), &insn) ||
	    insn.flow != item->flow ||
	    branch_targets_inside(body->branch_targets, item->at, item->at + item->length))
		return false;
	step->loses = lost_by(&insn);
	read_value(&insn, step);
	step->target = SIZE_MAX;
	step->goes_on = insn.flow == FLOW_NEXT || insn.flow == FLOW_BRANCH ||
			insn.flow == FLOW_CALL || insn.flow == FLOW_CALL_INDIRECT;
	if ((insn.flow != FLOW_JUMP && insn.flow != FLOW_BRANCH) ||
	    insn.target.v - body->start >= body->end - body->start)
		return true;
	return body_find(body, insn.target.v, &step->target) &&
	       body->insns.items[step->target].at == insn.target.v;
}

static void pass(const struct step *step, struct state *state)
{
	uint32_t value = step->sets || step->from < 0 ? step->value : state->values[step->from];
	bool known = step->sets || (step->from >= 0 && state->known >> step->from & 1);

	state->known &= (uint16_t)~step->loses;
	if (step->to < 0)
		return;
	state->values[step->to] = value;
	if (known)
		state->known |= (uint16_t)(1u << step->to);
}

/* Adds a way to get there; true: less is known than before. */
static bool join(struct state *state, const struct state *way)
{
	uint16_t known = state->known;

	if (!state->reached) {
		*state = *way;
		return true;
	}
	state->known &= way->known;
	for (unsigned i = 0; i < REGISTERS; i++) {
		if (state->values[i] != way->values[i])
			state->known &= (uint16_t) ~(1u << i);
	}
	return state->known != known;
}

/* Goes over the function once; true: something has changed. */
static bool go_over(const struct step *steps, struct state *states, size_t count)
{
	bool changed = false;

	for (size_t i = 0; i < count; i++) {
		struct state after = states[i];

		if (!after.reached)
			continue;
		pass(&steps[i], &after);
		if (steps[i].goes_on && i + 1 < count)
			changed |= join(&states[i + 1], &after);
		if (steps[i].target < count)
			changed |= join(&states[steps[i].target], &after);
	}
	return changed;
}

/* Code behind the function, up to the next one, may jump into it. The sweep of branch_targets.c
 * goes on there as this does. */
static void enter_from_behind(const struct body *body, struct state *states, uint64_t at)
{
	uint64_t end = branch_targets_next_start(body->branch_targets, body->start);
	struct prescan insn;
	size_t index;

	for (; at < end; at += insn.length) {
		if (!prescan(body->text->bytes + (at - body->text->address), end - at, taddr_of(at),
			     &insn)) {
			insn.length = 1;
			continue;
		}
		if (insn.has_target && body_find(body, insn.target.v, &index))
			states[index] = (struct state){ .reached = true };
	}
}

/* The states at the function's entry, and wherever else it may be entered. */
static bool enter(const struct body *body, struct state *states)
{
	const struct branch_targets *targets = body->branch_targets;
	const struct body_insn *last = vec_last(&body->insns);

	/* the sweep that found the targets began and ended where the body does */
	if (branch_targets_has_goroutines(targets) ||
	    branch_targets_next_start(targets, body->start - 1) != body->start ||
	    branch_targets_next_start(targets, body->start) < body->end)
		return false;
	for (size_t i = 0; i < body->insns.count; i++) {
		const struct body_insn *insn = &body->insns.items[i];

		states[i].reached = !i || insn->way == WAY_UNKNOWN ||
				    branch_targets_is_apart(targets, insn->at);
	}
	enter_from_behind(body, states, last->at + last->length);
	return true;
}

bool call_number_find(const struct body *body, size_t index, uint64_t *ret_number)
{
	size_t count = body->insns.count;

	if (!body->branch_targets || count > INSNS_MAX || body->start == body->text->address)
		return false;
	_cleanup_free_ struct step *steps = calloc(count, sizeof(*steps));
	_cleanup_free_ struct state *states = calloc(count, sizeof(*states));
	if (!steps || !states || !enter(body, states))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!read_step(body, i, &steps[i]))
			return false;
	}
	while (go_over(steps, states, count))
		;
	if (!states[index].reached || !(states[index].known >> ACCUMULATOR & 1))
		return false;
	*ret_number = states[index].values[ACCUMULATOR];
	return true;
}
