#include "control/exits/check/exit_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/code/decode.h"

#define LOOK_INSNS 8
#define LOOK_CALL 32 /* instructions from the start to a profiler's call */

/* Function names without leading underscores; a '*' ends a prefix. */
static const struct {
	const char *name, *why;
} refused[] = {
	{ "setjmp", "keeps its own return address" },
	{ "sigsetjmp", "keeps its own return address" },
	{ "getcontext", "keeps its own return address" },
	{ "swapcontext", "keeps its own return address" },
	{ "vfork", "returns twice on one stack" },
	{ "libc_vfork", "returns twice on one stack" },
	{ "morestack*", "moves the stack" },
	{ "dlsym", "reads the address of its caller" },
	{ "dlvsym", "reads the address of its caller" },
	{ "dlopen", "reads the address of its caller" },
	{ "dlmopen", "reads the address of its caller" },
	{ "Unwind_*", "part of the unwinder, which reads its own frames" },
	{ "uw_*", "part of the unwinder, which reads its own frames" },
	{ "unw_*", "part of the unwinder, which reads its own frames" },
	{ "mcount", "reads the address of its caller" },
	{ "fentry__", "reads the address of its caller" },
	{ "dl_runtime_resolve*", "entered by a jump from the PLT, not by a call" },
	{ "dl_runtime_profile*", "entered by a jump from the PLT, not by a call" },
	{ "restore_rt", "signal handlers return to it" },
	{ "start_context", "has no caller" },
};

static bool is_named(const char *name, const char *pattern)
{
	size_t length = strlen(pattern);

	while (*name == '_')
		name++;
	if (pattern[length - 1] == '*')
		return !strncmp(name, pattern, length - 1);
	return !strcmp(name, pattern);
}

static struct error *check_name(const char *name)
{
	for (size_t i = 0; name && i < sizeof(refused) / sizeof(refused[0]); i++) {
		if (is_named(name, refused[i].name))
			return error_new(ERROR_REFUSED, "%s", refused[i].why);
	}
	return NULL;
}

/* Refuses unnamed functions (unnamed_functions.h) of a module with an unwinder: they may be part of
 * it. */
static struct error *check_unnamed(const struct symtab *symtab, uint64_t address, const char *name)
{
	char made_up[32];
	uint64_t find;

	snprintf(made_up, sizeof(made_up), "fn_%" PRIx64, address);
	if ((name && strcmp(name, made_up) != 0) ||
	    (!symtab_find(symtab, "_Unwind_RaiseException") &&
	     !symtab_hidden_unwinder(symtab, &find)))
		return NULL;
	return error_new(ERROR_REFUSED,
			 "unnamed, and perhaps part of the unwinder, which reads its "
			 "own frames");
}

static struct error *check_rule(struct frame_rules *rules, uint64_t address)
{
	switch (frame_rule_at(rules, address)) {
	case FRAME_PLAIN:
		return NULL;
	case FRAME_SIGNAL:
		return error_new(ERROR_REFUSED, "signal handlers return to it");
	case FRAME_OTHER:
		return error_new(ERROR_REFUSED, "not a regular function (unwind information)");
	case FRAME_UNKNOWN:
		break;
	}
	return error_new(ERROR_REFUSED, "no unwind information about its return address");
}

static bool touches_rsp(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       operand->reg.value == ZYDIS_REGISTER_RSP;
}

/* [rsp] itself: the return address, as long as rsp is what it was at entry. */
static bool is_return_address(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.base == ZYDIS_REGISTER_RSP &&
	       operand->mem.index == ZYDIS_REGISTER_NONE && operand->mem.disp.value == 0 &&
	       operand->mem.type == ZYDIS_MEMOP_TYPE_MEM;
}

/* Does the instruction change rsp? *ret_bad: it pops, reads or writes the return address. */
static bool judge_insn(const struct insn *insn, bool *ret_bad)
{
	bool moves = false;

	*ret_bad = insn->zydis.mnemonic == ZYDIS_MNEMONIC_POP;
	for (size_t i = 0; i < insn->zydis.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
		    is_return_address(operand))
			*ret_bad = true;
		if (touches_rsp(operand) && (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			moves = true;
	}
	return moves;
}

/* Checks the first instructions, up to the one that changes rsp or jumps. */
static struct error *check_body(const struct symtab *symtab, uint64_t address)
{
	const struct text_range *text = symtab_text(symtab, address);
	struct insn insn;
	bool bad = false;

	for (unsigned i = 0; text && i < LOOK_INSNS; i++, address += insn.length) {
		uint64_t left = address - text->address < text->size
					? text->address + text->size - address
					: 0;

		if (!left || !decode(text->bytes + (address - text->address), left,
				     taddr_of(address), &insn))
			return NULL;
		bool moves = judge_insn(&insn, &bad);
		if (bad && insn.flow != FLOW_RETURN)
			return error_new(ERROR_REFUSED, "reads or changes its own return address");
		if (moves || insn.flow != FLOW_NEXT)
			return NULL;
	}
	return NULL;
}

static const char *called_name(const struct symtab *symtab, const struct insn *insn)
{
	const struct bound_function *bound = NULL;
	const struct symbol *symbol = NULL;

	if (insn->flow == FLOW_CALL && insn->has_target) {
		symbol = symtab_at(symtab, insn->target.v);
		bound = symtab_linked(symtab, insn->target.v);
	} else if (insn->flow == FLOW_CALL_INDIRECT && insn->rip_relative) {
		bound = symtab_bound(symtab, insn->rip_target.v);
	}
	return bound ? bound->name : symbol ? symbol->name : "";
}

/* Refuses functions compiled with -pg: mcount looks for their return address on their stack. */
static struct error *check_profiler(const struct symtab *symtab, uint64_t address)
{
	const struct text_range *text = symtab_text(symtab, address);
	struct insn insn = { 0 };

	for (unsigned i = 0; text && i < LOOK_CALL; i++, address += insn.length) {
		uint64_t at = address - text->address;

		if (at >= text->size ||
		    !decode(text->bytes + at, text->size - at, taddr_of(address), &insn))
			return NULL;
		const char *name = called_name(symtab, &insn);
		if (is_named(name, "mcount") || is_named(name, "fentry__"))
			return error_new(ERROR_REFUSED, "its profiler (-pg) reads the address of "
							"its caller");
		if (insn.flow != FLOW_NEXT)
			return NULL;
	}
	return NULL;
}

struct error *exit_check(const struct symtab *symtab, struct frame_rules *rules, uint64_t address,
			 const char *name)
{
	struct error *error = check_name(name);

	if (!error)
		error = check_unnamed(symtab, address, name);
	if (!error)
		error = check_rule(rules, address);
	if (!error)
		error = check_body(symtab, address);
	return error ? error : check_profiler(symtab, address);
}
