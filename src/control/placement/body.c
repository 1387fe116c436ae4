#include "body.h"

#include <assert.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/code/prescan.h"
#include "control/code/relocate.h"
#include "go_epilogue.h"

#define PADDING_MAX 64 /* bytes after the function that are read */
#define SCRATCH_SIZE 64

static bool ends_flow(enum insn_flow flow)
{
	return flow == FLOW_JUMP || flow == FLOW_JUMP_INDIRECT || flow == FLOW_RETURN ||
	       flow == FLOW_STOP;
}

static bool is_call(enum insn_flow flow)
{
	return flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT;
}

/* Nobody is parked in padding. */
static bool is_reached(const struct branch_targets *targets, const struct prescan *insn)
{
	return targets && branch_targets_at(targets, insn->pc.v) &&
	       !(insn->kind == PRESCAN_PADDING && branch_targets_is_parking(targets, insn->pc.v));
}

static enum body_way find_way(const struct branch_targets *targets, const struct body_insn *before,
			      const struct prescan *insn)
{
	bool is_after_end = before && (ends_flow(before->flow) || before->dead);

	if (!before || (is_after_end ? is_reached(targets, insn) :
				       targets && branch_targets_at(targets, insn->pc.v)))
		return WAY_BRANCH;
	if (is_call(before->flow))
		return WAY_RETURN;
	return is_after_end && insn->kind != PRESCAN_PADDING ? WAY_UNKNOWN : WAY_NONE;
}

static bool add(struct body *body, const struct prescan *insn)
{
	const struct body_insn *before = body->insns.count ? vec_last(&body->insns) : NULL;
	struct body_insn item = { .at = insn->pc.v,
				  .length = insn->length,
				  .flow = insn->flow,
				  .way = find_way(body->branch_targets, before, insn),
				  .sees_rip = insn->flow != FLOW_NEXT || insn->rip_relative };

	if (item.way == WAY_BRANCH && branch_targets_is_parking(body->branch_targets, item.at) &&
	    go_epilogue_goes_on(body, &item))
		item.way = WAY_PARKED;
	assert(!before || before->at + before->length == item.at);
	item.dead = item.way == WAY_NONE && (before->dead || ends_flow(before->flow));
	return vec_push(&body->insns, item);
}

bool body_read(struct body *body, const struct symtab *symtab, const struct branch_targets *targets,
	       uint64_t start, uint64_t end)
{
	const struct text_range *text = symtab_text(symtab, start);
	struct prescan insn;

	body->branch_targets = targets;
	body->start = start;
	body->end = end;
	body->text = text;
	body->insns.count = 0;
	for (uint64_t at = start; text && at < end + PADDING_MAX && at < text->address + text->size;
	     at += insn.length) {
		if (!prescan(text->bytes + (at - text->address), text->address + text->size - at,
			    taddr_of(at), &insn))
			break;
		if (at >= end &&
		    (insn.kind != PRESCAN_PADDING || !targets || is_reached(targets, &insn)))
			break;
		if (!add(body, &insn))
			return false;
		if (at >= end && !vec_last(&body->insns)->dead)
			break;
	}
	return true;
}

/* Only instructions that use RIP can refuse to be moved. */
static bool refuses_to_move(const struct body *body, const struct body_insn *item)
{
	uint8_t scratch[SCRATCH_SIZE];
	struct emitter e;
	struct insn insn;

	if (!item->sees_rip)
		return false;
	if (!decode_quick(body->text->bytes + (item->at - body->text->address), item->length,
			  taddr_of(item->at), &insn))
		return true;
	emit_init(&e, scratch, sizeof(scratch), insn.pc);
	_cleanup_error_ struct error *error = relocate(&insn, &e);
	return error != NULL;
}

bool body_is_fixed(const struct body *body, size_t index)
{
	const struct body_insn *item = &body->insns.items[index];
	uint64_t end = item->at + item->length;

	assert(index < body->insns.count && body->branch_targets);
	return refuses_to_move(body, item) ||
	       branch_targets_inside(body->branch_targets, item->at, end) ||
	       branch_targets_is_read(body->branch_targets, item->at, end);
}

void body_free(struct body *body)
{
	vec_free(&body->insns);
}

bool body_find(const struct body *body, uint64_t address, size_t *ret_index)
{
	size_t n = sorted_count(body->insns.count, i,
				body->insns.items[i].at + body->insns.items[i].length <= address);

	if (n == body->insns.count || body->insns.items[n].at > address)
		return false;
	*ret_index = n;
	return true;
}
