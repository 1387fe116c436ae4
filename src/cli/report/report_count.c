/*
 * report_count.c - counts calls that ended: for their function, call path and key, and among the
 * slowest.
 */
#include <stdlib.h>
#include <string.h>

#include "options/table_text.h"
#include "report_by.h"
#include "report_replay.h"

/* ---- slowest calls -------------------------------------------------------------------------- */

static void add_slow(struct replay *replay, const struct open_call *call, uint64_t duration)
{
	struct report *report = replay->report;
	struct viewer *viewer = report->viewer;
	size_t at = report->slow_count;

	while (at && report->slowest[at - 1].duration < duration)
		at--;
	if (at >= REPORT_SLOWEST || !viewer)
		return;
	if (report->slow_count == REPORT_SLOWEST)
		free(report->slowest[--report->slow_count].text);
	memmove(&report->slowest[at + 1], &report->slowest[at],
		(report->slow_count - at) * sizeof(*report->slowest));
	report->slow_count++;
	view_own_modules(viewer, &replay->input->layout);
	viewer->line.event = (struct frames_event){ replay->cursor->head.pid,
						   replay->cursor->cycles };
	viewer->line.text.length = 0;
	if (call && call->entry)
		view_own_fields(viewer, call->entry_type, call->entry);
	struct layout_place ret;
	if (layout_find(replay->cursor->type, replay->cursor->event, "ret", &ret)) {
		text_add(&viewer->line.text, viewer->line.text.length ? " -> " : "-> ");
		view_own_value(viewer, &ret, replay->cursor->event);
	}
	report->slowest[at] = (struct report_slow){
		.duration = duration,
		.begin_ns = trace_layout_ns(&replay->input->layout, replay->cursor->cycles) -
			    (int64_t)duration,
		.tid = replay->cursor->head.tid,
		.pid = replay->cursor->head.pid,
		.text = viewer->line.text.length ? strdup(viewer->line.text.text) : NULL,
	};
	viewer->line.text.length = 0;
}

/* Counts the call among its caller's and its callee's, for the function that is looked at. */
static void add_edges(struct replay *replay, uint32_t function, bool has_entry, uint64_t duration)
{
	struct report *report = replay->report;
	uint32_t outer = replay->stack.count ? vec_last(&replay->stack)->function :
					       (uint32_t)report->functions.count;

	if (function == report->wanted_index && has_entry) {
		report->callers.items[outer].calls++;
		report->callers.items[outer].total += duration;
	}
	if (outer == report->wanted_index) {
		report->callees.items[function].calls++;
		report->callees.items[function].total += duration;
	}
}

/* ---- rows by key ---------------------------------------------------------------------------- */

void report_count_by_key(struct replay *replay, uint32_t function, const struct open_call *call,
			 uint64_t duration, uint64_t self)
{
	struct report *report = replay->report;
	const struct packet_cursor *cursor = replay->cursor;
	bool is_exit = cursor->type->part == LAYOUT_EXIT;
	const struct open_call *outer = replay->stack.count ? vec_last(&replay->stack) : NULL;
	struct packet_cursor entry = { .head = cursor->head };
	struct by_call one = {
		.exit = is_exit ? cursor : NULL,
		.entry = is_exit ? NULL : cursor,
		.input = replay->input,
		.caller = outer ? report->functions.items[outer->function].name : NULL,
		.function = function,
		.has_exit = report->functions.items[function].has_exit,
		.thread = replay->thread,
		.duration = duration,
		.self = self,
		.serial = call ? call->number : replay->entries + 1,
		.outer = outer ? outer->number : 0,
	};

	if (report->wanted && function != report->wanted_index)
		return;
	if (call && call->entry) {
		entry.type = call->entry_type;
		entry.event = call->entry;
		entry.cycles = call->cycles;
		one.entry = &entry;
	}
	replay->failed |= !report_by_take(report->by, report, &one);
}

/* ---- calls ---------------------------------------------------------------------------------- */

void report_count_call(struct replay *replay, uint32_t index, const struct open_call *call,
		       uint64_t duration)
{
	struct report *report = replay->report;
	struct report_function *function = &report->functions.items[index];
	uint64_t children = call ? call->children : 0, inside = call ? call->inside : 0;
	uint64_t self = duration > children ? duration - children : 0;

	report_tell_end(replay, call ? CALL_WHOLE : CALL_PARTIAL, index, call, duration);
	replay->failed |= !distribution_add(&function->durations, (int64_t)duration, 1);
	function->total += duration > inside ? duration - inside : 0; /* O1 */
	if (call && call->below != REPORT_NONE)
		replay->stack.items[call->below].inside += duration;
	if (call)
		function->self += self;
	else
		function->partial++; /* O3 */
	if (replay->stack.count)
		vec_last(&replay->stack)->children += duration;
	if (call && report->wants_tree) {
		struct report_node *node = &report->nodes.items[call->node];

		node->calls++;
		node->total += duration;
		node->self += self;
	}
	if (report->by)
		report_count_by_key(replay, index, call, duration, self);
	if (report->wanted) {
		add_edges(replay, index, call != NULL, duration);
		if (index == report->wanted_index)
			add_slow(replay, call, duration);
	}
}
