#include "tactic.h"

#include <string.h>

#define JUMP_LENGTH 5

static bool ends_flow(const struct insn *insn)
{
	return insn->flow == FLOW_JUMP || insn->flow == FLOW_JUMP_INDIRECT || insn->flow == FLOW_RETURN ||
	       insn->flow == FLOW_STOP;
}

static bool is_call(const struct insn *insn)
{
	return insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT;
}

static bool is_padding(const struct insn *insn)
{
	return insn->zydis.mnemonic == ZYDIS_MNEMONIC_NOP || insn->zydis.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* May the instruction at `at` be moved along behind the site's first? NULL: yes. */
static struct error *check_interior(const struct tactic_view *view, const struct insn *before,
				    const struct insn *insn)
{
	uint64_t at = insn->pc.v;

	if (at >= view->function_end && !is_padding(insn))
		return error_new(ERROR_REFUSED, "the function ends after %llu bytes, a jump needs %d",
				 (unsigned long long)(view->function_end - view->address), JUMP_LENGTH);
	if (inbound_at(view->inbound, at))
		return error_new(ERROR_REFUSED, "something jumps to the instruction %llu bytes behind it",
				 (unsigned long long)(at - view->address));
	if (is_call(before))
		return error_new(ERROR_REFUSED, "a call returns to the instruction %llu bytes behind it",
				 (unsigned long long)(at - view->address));
	if (ends_flow(before) && !is_padding(insn))
		return error_new(ERROR_REFUSED, "the code %llu bytes behind it is reached in an unknown way",
				 (unsigned long long)(at - view->address));
	return NULL;
}

/* Whole instructions, the site's first and as many behind it as the jump covers. */
static struct error *try_jump(const struct tactic_view *view, struct site *site)
{
	const struct text_range *text = symtab_text(view->symtab, view->address);
	struct insn insn, before = { 0 };
	size_t length = 0, count = 0;

	if (!text)
		return error_new(ERROR_REFUSED, "it isn't in the program's code");
	for (; length < JUMP_LENGTH; length += insn.length, count++) {
		uint64_t at = view->address + length;
		uint64_t left = at < text->address + text->size ? text->address + text->size - at : 0;

		if (!left || !decode(text->bytes + (at - text->address), left, taddr_of(at), &insn))
			return error_new(ERROR_REFUSED, "the bytes there are no instruction");
		struct error *error = count ? check_interior(view, &before, &insn) : NULL;
		if (error)
			return error;
		site->lengths[count] = insn.length;
		before = insn;
	}
	site->insn_count = count;
	site->length = length;
	return NULL;
}

const struct tactic tactics[] = {
	{ "jump", try_jump },
};
const size_t tactic_count = sizeof(tactics) / sizeof(tactics[0]);
