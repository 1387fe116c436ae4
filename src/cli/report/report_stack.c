/*
 * report_stack.c - the open calls of a thread: a stack, from which calls are taken in any order of
 * their ends.
 */
#include <stdlib.h>
#include <string.h>

#include "report_replay.h"

#define DEPTH_MAX (1u << 20) /* open calls */
#define TREE_DEPTH 200
#define NODES_MAX 200000
/* ---- call paths ----------------------------------------------------------------------------- */

/* The node of a call inside `parent`; the parent itself, if there are too many. */
static uint32_t node_of(struct replay *replay, uint32_t parent, uint32_t depth, uint32_t function)
{
	struct report *report = replay->report;
	uint32_t before = 0;

	for (uint32_t i = report->nodes.items[parent].first; i; i = report->nodes.items[i].next) {
		if (report->nodes.items[i].function != function) {
			before = i;
			continue;
		}
		if (before) { /* to the front: the next call is mostly of the same function */
			report->nodes.items[before].next = report->nodes.items[i].next;
			report->nodes.items[i].next = report->nodes.items[parent].first;
			report->nodes.items[parent].first = i;
		}
		return i;
	}
	if (report->nodes.count >= NODES_MAX || depth >= TREE_DEPTH) {
		report->has_folded = true;
		return parent;
	}
	struct report_node node = { .function = function,
				    .parent = parent,
				    .next = report->nodes.items[parent].first };
	if (!vec_push(&report->nodes, node)) {
		replay->failed = true;
		return parent;
	}
	return report->nodes.items[parent].first = (uint32_t)report->nodes.count - 1;
}

/* ---- open calls ----------------------------------------------------------------------------- */

struct report_function *report_stack_function(struct replay *replay, uint32_t index)
{
	struct report_function *function = &replay->report->functions.items[index];

	if (function->thread != replay->thread) {
		function->thread = replay->thread;
		function->top = REPORT_NONE;
		function->cut_open = 0;
	}
	return function;
}

/* Does anybody want to see the call's entry when it ends? */
static bool keeps_entry(const struct replay *replay, const struct open_call *call)
{
	const struct report *report = replay->report;

	return (report->wanted ? call->function == report->wanted_index : report->by != NULL) ||
	       (report->listener && report->listener->keeps &&
		report->listener->keeps(report->listener, call->number));
}

void report_stack_push(struct replay *replay, const struct meaning *meaning)
{
	struct report *report = replay->report;
	struct report_function *function = report_stack_function(replay, meaning->function);
	struct open_call *outer = replay->stack.count ? vec_last(&replay->stack) : NULL;
	struct open_call call = { .function = meaning->function,
				  .below = function->top,
				  .number = ++replay->entries,
				  .cycles = replay->cursor->cycles };

	if (replay->stack.count >= DEPTH_MAX)
		return;
	if (report->wants_tree) {
		uint32_t parent = outer ? outer->node : 0;

		call.node = node_of(replay, parent, outer ? outer->depth : 0, call.function);
		call.depth = (outer ? outer->depth : 0) + (call.node != parent);
	}
	if (keeps_entry(replay, &call) && (call.entry = malloc(replay->cursor->size))) {
		memcpy(call.entry, replay->cursor->event, replay->cursor->size);
		call.entry_type = replay->cursor->type;
	}
	report_tell_entry(replay, &call);
	if (vec_push(&replay->stack, call))
		function->top = (uint32_t)replay->stack.count - 1;
	else
		replay->failed = true;
}

struct open_call report_stack_pop(struct replay *replay)
{
	struct open_call call = replay->stack.items[--replay->stack.count];

	report_stack_function(replay, call.function)->top = call.below;
	return call;
}

/* ---- calls that end unseen (O10) ------------------------------------------------------------- */

enum report_end report_stack_end_of(const struct report_function *function, bool is_end)
{
	static const enum report_end ends[] = { [FATE_UNWOUND] = CALL_UNWOUND,
						[FATE_INSIDE] = CALL_INSIDE,
						[FATE_MISSED] = CALL_MISSED,
						[FATE_UNKNOWN] = CALL_UNSEEN };

	return ends[layout_fate(&function->fates, is_end)];
}

void report_stack_settle(struct report_function *function)
{
	const struct layout_fates *fates = &function->fates;
	uint64_t left = function->unseen;

	if (!layout_ends_unseen(fates))
		return;
	function->missed = left < fates->missed ? left : fates->missed;
	left -= function->missed;
	function->unwound = left < fates->unwound ? left : fates->unwound;
	function->inside = left - function->unwound;
}

void report_stack_drop(struct replay *replay, bool is_cut, bool is_end)
{
	struct open_call call = report_stack_pop(replay);
	struct report_function *function = &replay->report->functions.items[call.function];

	if (call.below != REPORT_NONE)
		replay->stack.items[call.below].inside += call.inside;
	if (replay->stack.count)
		vec_last(&replay->stack)->children += call.children;
	if (layout_ends_unseen(&function->fates) && !is_cut) {
		function->unseen++;
	} else if (function->has_exit) {
		function->cut += is_cut;
		function->cut_open += is_cut;
		function->inside += is_end && !is_cut;
		function->unwound += !is_end && !is_cut;
	}
	report_tell_end(replay, is_cut ? CALL_CUT : report_stack_end_of(function, is_end),
			call.function, &call, 0);
	free(call.entry);
}

void report_stack_drop_all(struct replay *replay, bool is_cut)
{
	while (replay->stack.count)
		report_stack_drop(replay, is_cut, true);
}

void report_stack_end_unseen(struct replay *replay, uint32_t function)
{
	const struct report_function *functions = replay->report->functions.items;
	size_t at = replay->stack.count;

	while (at && layout_ends_unseen(&functions[replay->stack.items[at - 1].function].fates) &&
	       replay->stack.items[at - 1].function != function)
		at--;
	if (at && replay->stack.items[at - 1].function == function)
		while (replay->stack.count >= at)
			report_stack_drop(replay, false, false);
}
