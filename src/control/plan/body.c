#include "body.h"

#include "../base/cleanup.h"
#include "../code/relocate.h"

#define PADDING_MAX 64 /* bytes behind the function that are looked at */
#define SCRATCH_SIZE 64

static bool ends_flow(enum insn_flow flow)
{
	return flow == FLOW_JUMP || flow == FLOW_JUMP_INDIRECT || flow == FLOW_RETURN || flow == FLOW_STOP;
}

static bool is_call(enum insn_flow flow)
{
	return flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT;
}

static bool is_padding(const struct insn *insn)
{
	return insn->zydis.mnemonic == ZYDIS_MNEMONIC_NOP || insn->zydis.mnemonic == ZYDIS_MNEMONIC_INT3;
}

/* Only what looks at RIP can refuse to be moved. */
static bool is_fixed(const struct insn *insn)
{
	uint8_t scratch[SCRATCH_SIZE];
	struct emitter e;

	if (insn->flow == FLOW_NEXT && !insn->rip_relative)
		return false;
	emit_init(&e, scratch, sizeof(scratch), insn->pc);
	_cleanup_error_ struct error *error = relocate(insn, &e);
	return error != NULL;
}

static enum body_way find_way(const struct inbound *inbound, const struct body_insn *before,
			      const struct insn *insn)
{
	if (!before || inbound_at(inbound, insn->pc.v))
		return WAY_INBOUND;
	if (is_call(before->flow))
		return WAY_RETURN;
	return (ends_flow(before->flow) || before->dead) && !is_padding(insn) ? WAY_UNKNOWN : WAY_NONE;
}

static bool add(struct body *body, const struct inbound *inbound, const struct insn *insn)
{
	const struct body_insn *before = body->insns.count ? vec_last(&body->insns) : NULL;
	struct body_insn item = { .at = insn->pc.v,
				  .length = insn->length,
				  .flow = insn->flow,
				  .way = find_way(inbound, before, insn),
				  .fixed = is_fixed(insn) ||
					   inbound_inside(inbound, insn->pc.v, insn->pc.v + insn->length) ||
					   inbound_is_read(inbound, insn->pc.v, insn->pc.v + insn->length) };

	item.dead = item.way == WAY_NONE && (before->dead || ends_flow(before->flow));
	return vec_push(&body->insns, item);
}

bool body_read(struct body *body, const struct symtab *symtab, const struct inbound *inbound, uint64_t start,
	       uint64_t end)
{
	const struct text_range *text = symtab_text(symtab, start);
	struct insn insn;

	body->start = start;
	body->end = end;
	body->text = text;
	body->insns.count = 0;
	for (uint64_t at = start; text && at < end + PADDING_MAX && at < text->address + text->size;
	     at += insn.length) {
		if (!decode_quick(text->bytes + (at - text->address), text->address + text->size - at,
				  taddr_of(at), &insn))
			break;
		if (at >= end && (!is_padding(&insn) || inbound_at(inbound, at)))
			break;
		if (!add(body, inbound, &insn))
			return false;
		if (at >= end && !vec_last(&body->insns)->dead)
			break;
	}
	return true;
}

void body_free(struct body *body)
{
	vec_free(&body->insns);
}

bool body_find(const struct body *body, uint64_t address, size_t *ret_index)
{
	size_t low = 0, high = body->insns.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (body->insns.items[middle].at + body->insns.items[middle].length <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == body->insns.count || body->insns.items[low].at > address)
		return false;
	*ret_index = low;
	return true;
}
