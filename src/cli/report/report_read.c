/*
 * report_read.c - from the events of each thread to calls.
 *
 * A thread's open calls are a stack. An exit closes the innermost open call of its function; calls
 * above that one have ended without an exit. A loss empties the stack: what was open before it, and
 * exits behind it whose entries came before, belong to calls that it cut. So does a packet that is
 * missing.
 */
#include <stdlib.h>
#include <string.h>

#include "report_replay.h"

#define NOTE_EVENTS 4096 /* after so many the parent hears that there is progress */

/* ---- events --------------------------------------------------------------------------------- */

/* (O2) Did the call begin before the last loss? */
static bool is_cut(const struct replay *replay, uint64_t duration)
{
	double cycles = (double)duration * (double)replay->input->layout.frequency / 1e9;
	uint64_t now = replay->cursor->cycles;

	return replay->cut_before &&
	       (cycles >= (double)now || now - (uint64_t)cycles < replay->cut_before);
}

static void end_call(struct replay *replay, const struct meaning *meaning)
{
	struct report_function *function = report_stack_function(replay, meaning->function);
	uint64_t duration = report_meaning_duration(replay->cursor, meaning);

	if (function->top == REPORT_NONE) {
		if (!is_cut(replay, duration)) {
			function->unseen -= function->unseen > 0; /* O10: its entry came */
			report_count_call(replay, meaning->function, NULL, duration);
		} else if (function->cut_open) {
			function->cut_open--; /* counted when the loss came */
		} else {
			function->cut++;
		}
		return;
	}
	while (replay->stack.count - 1 > function->top)
		report_stack_drop(replay, false, false);
	struct open_call call = report_stack_pop(replay);
	report_count_call(replay, meaning->function, &call, duration);
	free(call.entry);
}

static void note_time(struct report *report, int64_t ns)
{
	if (report->first_ns > ns)
		report->first_ns = ns;
	if (report->last_ns < ns)
		report->last_ns = ns;
}

static void take_event(struct replay *replay)
{
	const struct layout_event *type = replay->cursor->type;
	const struct meaning *meaning = type->own;

	replay->report->events++;
	replay->now = replay->cursor->cycles;
	if (++replay->unnoted == NOTE_EVENTS) {
		view_reader_count(replay->reader, replay->unnoted);
		replay->unnoted = 0;
		const struct report *report = replay->report;
		view_reader_progress(replay->reader,
				     report->reading * replay->whole + replay->done +
					     run_merge_bytes(&replay->merge),
				     replay->whole * (report->readings ? report->readings : 1));
	}
	if (type->part == LAYOUT_EXIT) {
		end_call(replay, meaning);
		return;
	}
	struct report_function *function = &replay->report->functions.items[meaning->function];
	function->hits++;
	if (replay->report->by)
		report_count_by_key(replay, meaning->function, NULL, 0, 0);
	if (layout_never_exits(&type->fates)) {
		function->unseen++;
		report_tell_end(replay, report_stack_end_of(function, false), meaning->function,
				NULL, 0);
	} else if (type->part == LAYOUT_ENTRY && function->has_exit) {
		if (layout_ends_unseen(&function->fates))
			report_stack_end_unseen(replay, meaning->function);
		report_stack_push(replay, meaning);
	} else {
		report_tell_end(replay, CALL_HIT, meaning->function, NULL, 0);
	}
}

static void take_loss(struct replay *replay)
{
	struct report_listener *listener = replay->report->listener;
	const struct packet_cursor *cursor = replay->cursor;

	replay->report->lost += cursor->lost;
	replay->now = replay->now > cursor->lost_begin ? replay->now : cursor->lost_begin;
	report_stack_drop_all(replay, true);
	if (listener && listener->lose)
		listener->lose(listener,
			       &(struct report_loss){
				       .count = cursor->lost,
				       .begin_ns = report_tell_ns(replay, cursor->lost_begin),
				       .end_ns = report_tell_ns(replay, cursor->lost_end) });
	replay->cut_before = replay->cursor->head.timestamp_begin;
}

/* (O2) Packets are missing before the cursor's, which may be the thread's. */
static void take_gap(struct replay *replay, const struct packet_gap *gap)
{
	struct report_listener *listener = replay->report->listener;

	replay->now = replay->now > gap->begin ? replay->now : gap->begin;
	report_stack_drop_all(replay, true);
	if (listener && listener->lose)
		listener->lose(listener, &(struct report_loss){
						 .count = gap->packets,
						 .is_packets = true,
						 .begin_ns = report_tell_ns(replay, gap->begin),
						 .end_ns = report_tell_ns(replay, gap->end) });
	replay->cut_before = replay->cursor->head.timestamp_begin;
}

/* Is it known where the thread's open calls have their ends? */
static void end_thread(struct replay *replay)
{
	report_stack_drop_all(replay,
			      replay->input && gap_watch_end(&replay->watch, &replay->input->gaps));
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Reads a run, and those that overlap with it; gives the run after them. */
static size_t read_runs(struct replay *replay, size_t first)
{
	struct packet_cursor *cursor;
	enum cursor_item item;

	run_merge_begin(&replay->merge, replay->input, first);
	while ((item = run_merge_next(&replay->merge, &cursor)) < CURSOR_END && !replay->failed) {
		const struct packet_gap *gap =
			gap_watch_item(&replay->watch, &replay->input->gaps, cursor);

		replay->cursor = cursor;
		if (gap)
			take_gap(replay, gap);
		if (item == CURSOR_EVENT)
			take_event(replay);
		else if (item == CURSOR_LOST_EVENTS)
			take_loss(replay);
	}
	replay->report->is_damaged |= item == CURSOR_DAMAGED;
	return replay->merge.end;
}

static void begin_thread(struct replay *replay, const struct trace_run *run)
{
	struct report_listener *listener = replay->report->listener;

	end_thread(replay);
	replay->thread++;
	replay->cut_before = 0;
	replay->watch = (struct gap_watch){ 0 };
	replay->now = run->begin;
	replay->report->threads++;
	if (listener && listener->begin_thread)
		listener->begin_thread(listener, replay->input, run);
}

static void read_input(struct replay *replay, const struct trace_input *input)
{
	const struct trace_layout *layout = &input->layout;

	replay->input = input;
	replay->report->lost_packets += input->gaps.packets;
	for (size_t i = 0; i < input->runs.count && !replay->failed;) {
		if (trace_input_is_new_thread(input, i))
			begin_thread(replay, &input->runs.items[i]);
		size_t end = read_runs(replay, i);
		for (; i < end; i++) {
			const struct trace_run *run = &input->runs.items[i];

			note_time(replay->report, trace_layout_ns(layout, run->begin));
			note_time(replay->report, trace_layout_ns(layout, run->end));
			replay->done += run->to - run->from;
		}
	}
	end_thread(replay);
}

static struct error *prepare(struct report *report, const struct own_traces *traces)
{
	report->first_ns = INT64_MAX;
	report->last_ns = INT64_MIN;
	for (size_t i = 0; i < traces->inputs.count; i++) {
		struct error *error = report_meaning_find(report, traces->inputs.items[i]);

		if (error)
			return error;
	}
	size_t count = report->functions.count + 1;
	if ((report->wants_tree && !vec_push(&report->nodes, (struct report_node){ 0 })) ||
	    (report->wanted &&
	     (!vec_reserve(&report->callers, count) || !vec_reserve(&report->callees, count))))
		return error_new(ERROR_FAILED, "out of memory");
	if (report->wanted) {
		memset(report->callers.items, 0, count * sizeof(*report->callers.items));
		memset(report->callees.items, 0, count * sizeof(*report->callees.items));
		report->callers.count = report->callees.count = count;
		report->wanted_index = report_find(report, report->wanted);
		if (report->wanted_index == REPORT_NONE)
			return error_new(ERROR_FAILED,
					 "the trace has no function '%s' ('dyntrace report' "
					 "without it lists them)",
					 report->wanted);
	}
	return NULL;
}

struct error *report_read(struct report *report, const struct own_traces *traces,
			  struct view_reader *reader)
{
	struct replay replay = { .report = report, .reader = reader };
	struct error *error = prepare(report, traces);

	for (size_t i = 0; i < traces->inputs.count; i++)
		replay.whole += traces->inputs.items[i]->size;
	for (size_t i = 0; i < traces->inputs.count && !error && !replay.failed; i++)
		read_input(&replay, traces->inputs.items[i]);
	if (!error && replay.failed)
		error = error_new(ERROR_FAILED, "out of memory");
	view_reader_count(reader, replay.unnoted);
	report_stack_drop_all(&replay, false);
	for (size_t i = 0; i < report->functions.count; i++)
		report_stack_settle(&report->functions.items[i]);
	vec_free(&replay.stack);
	run_merge_free(&replay.merge);
	report_meaning_free(traces);
	return error;
}
