#include "control/arguments/caller_evidence.h"

#include <string.h>

#include "control/arguments/argument_use.h"
#include "control/arguments/import_use.h"
#include "control/arguments/register_effect.h"
#include "control/base/vec.h"
#include "control/code/prescan.h"

#define SITES_MAX 128u /* callers that are looked at */
#define CALLERS_DEEP 1u /* callers of callers */
#define PARTS_MAX 4u /* pieces of code that a function jumps to and back from */
#define TARGETS_MAX 256u /* jumps of a caller */
#define BYTES_MAX (64u << 10) /* of a caller */
#define CALL_BYTE 0xe8

/* The code that leads to a call. */
struct caller {
	uint64_t start, end; /* by the unwind table */
	uint64_t site; /* the call */
	uint64_t from; /* the last call before it; 0: none */
	uint64_t behind; /* behind that call, or the function's start, or what ends a way there */
	bool has_branch; /* between the last call and the site */
	bool is_apart; /* nothing leads there from the last call, but a jump to `behind` */
	bool jumps_anywhere; /* has jumps that lead to unknown places */
	uint64_t parts[PARTS_MAX];
	size_t part_count;
	size_t target_count;
	uint64_t targets[TARGETS_MAX]; /* of its jumps, in its own code */
};

struct evidence {
	const struct symtab *symtab;
	struct use_search *plain;
};

/* ---- the code around a call ------------------------------------------------------------------ */

static void note_target(struct caller *caller, uint64_t target)
{
	if (target - caller->start < caller->end - caller->start) {
		if (caller->target_count < TARGETS_MAX)
			caller->targets[caller->target_count++] = target;
		else
			caller->jumps_anywhere = true;
		return;
	}
	for (size_t i = 0; i < caller->part_count; i++) {
		if (caller->parts[i] == target)
			return;
	}
	if (caller->part_count < PARTS_MAX)
		caller->parts[caller->part_count++] = target;
	else
		caller->jumps_anywhere = true;
}

/* Finds the last call before the site. */
static void note_before(struct caller *caller, const struct prescan *insn)
{
	if (insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT) {
		caller->from = insn->pc.v;
		caller->behind = insn->pc.v + insn->length;
		caller->has_branch = false;
		caller->is_apart = false;
	} else if (insn->flow != FLOW_NEXT) {
		caller->has_branch = true;
	}
	if (insn->flow == FLOW_JUMP || insn->flow == FLOW_JUMP_INDIRECT ||
	    insn->flow == FLOW_RETURN || insn->flow == FLOW_STOP) {
		caller->behind = insn->pc.v + insn->length;
		caller->is_apart = true;
	}
}

/* Reads instructions; false: they don't end at `end`. */
static bool read_code(const struct symtab *symtab, uint64_t start, uint64_t end,
		      struct caller *caller)
{
	const struct text_range *text = symtab_text(symtab, start);
	struct prescan insn;
	uint64_t pc;

	if (!text || end > text->address + text->size || end - start > BYTES_MAX)
		return false;
	for (pc = start; pc < end; pc += insn.length) {
		if (!prescan(text->bytes + (pc - text->address), text->address + text->size - pc,
			     taddr_of(pc), &insn))
			return false;
		if (end == caller->site)
			note_before(caller, &insn);
		if (insn.has_target && insn.flow != FLOW_CALL)
			note_target(caller, insn.target.v);
		caller->jumps_anywhere |= insn.flow == FLOW_JUMP_INDIRECT;
	}
	return pc == end;
}

/* Reads the code up to the site. */
static bool read_caller(const struct symtab *symtab, uint64_t site, struct caller *caller)
{
	caller->site = site;
	caller->target_count = 0;
	if (!symtab_fde(symtab, site, &caller->start, &caller->end))
		return false;
	caller->behind = caller->start;
	return read_code(symtab, caller->start, site, caller) && caller->behind <= site;
}

static bool is_call(const struct symtab *symtab, uint64_t at)
{
	const struct text_range *text = symtab_text(symtab, at);

	return text->bytes[at - text->address] == CALL_BYTE;
}

/* Other code may be a part of a function, which enters it anywhere: by the table of a switch. */
static bool is_whole(const struct symtab *symtab, uint64_t start)
{
	const struct symbol *symbol = symtab_at(symtab, start);
	size_t count;
	const struct symtab_jump *jumps = symtab_jumps_to(symtab, start, &count);

	for (size_t i = 0; i < count; i++) {
		if (is_call(symtab, jumps[i].from))
			return true;
	}
	return symbol && symbol->global && symbol->address == start;
}

/* Does code jump to an instruction between the last call and the site, or anywhere? Code that is
 * kept elsewhere, because it seldom runs, jumps back into its function. */
static bool is_entered(const struct symtab *symtab, struct caller *caller)
{
	bool known = is_whole(symtab, caller->start) &&
		     read_code(symtab, caller->site, caller->end, caller);

	for (size_t i = 0; i < caller->part_count && known; i++) {
		uint64_t start, end;

		known = symtab_fde(symtab, caller->parts[i], &start, &end) &&
			read_code(symtab, start, end, caller);
	}
	for (size_t i = 0; i < caller->target_count && known; i++) {
		/* a jump to `behind` could be what follows a call that doesn't return */
		if (caller->targets[i] >= caller->behind && caller->targets[i] <= caller->site)
			return true;
	}
	return !known || caller->jumps_anywhere;
}

/* Does the function jump into the caller's code? Then that is a part of it. True: perhaps. */
static bool jumps_into(const struct symtab *symtab, uint64_t function, const struct caller *caller)
{
	const struct text_range *text = symtab_text(symtab, function);
	uint64_t start, end;
	struct prescan insn;

	if (!text || !symtab_fde(symtab, function, &start, &end) || end - function > BYTES_MAX ||
	    end > text->address + text->size)
		return true;
	for (uint64_t pc = function; pc < end; pc += insn.length) {
		if (!prescan(text->bytes + (pc - text->address), end - pc, taddr_of(pc), &insn))
			return true;
		if (insn.has_target && insn.flow != FLOW_CALL &&
		    insn.target.v - caller->start < caller->end - caller->start)
			return true;
	}
	return false;
}

/* Is the site a jump of the function's own, back to its first instruction? */
static bool is_loop(const struct symtab *symtab, uint64_t function, const struct caller *caller)
{
	return !is_call(symtab, caller->site) &&
	       (caller->start == function || jumps_into(symtab, function, caller));
}

/* ---- what is in the registers ---------------------------------------------------------------- */

static uint8_t evidence_for(const struct evidence *evidence, uint64_t function, unsigned deeper);

/* Garbage behind the last call before the site, or at the caller's own start. */
static uint8_t garbage_before(const struct evidence *evidence, const struct caller *caller,
			      unsigned deeper, bool *ret_returns)
{
	struct insn insn;
	struct use use;

	*ret_returns = true;
	if (caller->is_apart)
		return 0;
	if (!caller->from)
		return deeper ? evidence_for(evidence, caller->start, deeper - 1) : 0;
	if (!import_read_insn(evidence->symtab, caller->from, &insn))
		return 0;
	use = use_search_callee(evidence->plain, &insn);
	*ret_returns = use.returns;
	return use.clobbers & (uint8_t)~use.results;
}

/* Evidence of a caller's registers for the function's arguments. */
struct told {
	uint8_t garbage; /* what is in these is nobody's */
	uint8_t passed; /* these are written for the function: nothing else reads them */
	uint8_t constant; /* of `passed`: a number that the code has */
	bool may_be_variadic; /* rax holds a number: of arguments in vector registers */
};

/* The argument register that is the result of the instruction; 0: none. */
static uint8_t given_by(const struct insn *insn, const struct register_effect *effect)
{
	const ZydisDecodedOperand *to = &insn->operands[0];
	bool is_result = insn->zydis.operand_count_visible &&
			 to->type == ZYDIS_OPERAND_TYPE_REGISTER &&
			 (to->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
			 insn->zydis.mnemonic != ZYDIS_MNEMONIC_POP;

	return is_result && __builtin_popcount(effect->touches) == 1 ? effect->touches : 0;
}

static bool is_number(const struct insn *insn)
{
	if (insn->zydis.mnemonic == ZYDIS_MNEMONIC_XOR)
		return insn->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		       insn->operands[1].reg.value == insn->operands[0].reg.value;
	return insn->zydis.mnemonic == ZYDIS_MNEMONIC_MOV &&
	       insn->operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}

static void tell(struct told *told, const struct insn *insn, const struct register_effect *effect)
{
	uint8_t given = given_by(insn, effect);

	told->garbage &= effect->is_opaque ? 0 : (uint8_t)~effect->touches;
	told->passed &= (uint8_t)~(effect->reads | effect->touches);
	if (effect->enters_kernel || insn->flow != FLOW_NEXT)
		told->passed = 0;
	told->passed |= given;
	told->constant &= told->passed & (uint8_t)~given;
	if (given && is_number(insn))
		told->constant |= given;
	if (effect->writes_rax)
		told->may_be_variadic = is_number(insn);
}

/* Reads the code from the last call to the site; false: it isn't code. */
static bool read_way(const struct symtab *symtab, const struct caller *caller, struct told *told)
{
	struct insn insn;

	for (uint64_t at = caller->behind; at < caller->site; at += insn.length) {
		struct stack_state stack = { STACK_UNKNOWN, STACK_UNKNOWN };
		struct register_effect effect;

		if (!import_read_insn(symtab, at, &insn))
			return false;
		effect = register_effect_of(&insn, &stack);
		tell(told, &insn, &effect);
	}
	/* an Option that is None has nothing in its second word; open() may have no mode */
	told->garbage &= (uint8_t)~(told->constant << 1);
	if (told->may_be_variadic)
		told->garbage = 0;
	return true;
}

/* Evidence of a call of the function, or of a jump to it. */
static struct told told_at(const struct evidence *evidence, uint64_t function, uint64_t site,
			   unsigned deeper)
{
	const struct told nothing = { 0 };
	struct told told = { 0 };
	struct caller caller;
	bool returns;

	memset(&caller, 0, offsetof(struct caller, targets));
	if (!read_caller(evidence->symtab, site, &caller) ||
	    is_loop(evidence->symtab, function, &caller))
		return nothing;
	told.garbage = garbage_before(evidence, &caller, deeper, &returns);
	if (!read_way(evidence->symtab, &caller, &told))
		return nothing;
	/* Values of two ways may depend on one condition, which decides on the call, too. What
	 * follows a call that doesn't return is reached from elsewhere. */
	if (told.garbage && (caller.has_branch || !returns) &&
	    is_entered(evidence->symtab, &caller))
		told.garbage = 0;
	return told;
}

/* Arguments have no gaps: below one that is passed, there are others. */
static uint8_t evidence_for(const struct evidence *evidence, uint64_t function, unsigned deeper)
{
	uint8_t once = 0, twice = 0, passed = 0;
	size_t count;
	const struct symtab_jump *jumps = symtab_jumps_to(evidence->symtab, function, &count);

	for (size_t i = 0; i < count && i < SITES_MAX; i++) {
		struct told told = told_at(evidence, function, jumps[i].from, deeper);

		passed |= told.passed;
		twice |= once & told.garbage;
		once |= told.garbage;
	}
	return twice & (uint8_t)~arguments_up_to(passed);
}

uint8_t caller_evidence(const struct symtab *symtab, struct use_search *plain, uint64_t function)
{
	struct evidence evidence = { .symtab = symtab, .plain = plain };

	return evidence_for(&evidence, function, CALLERS_DEEP);
}
