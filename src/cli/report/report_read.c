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

#include "control/base/cleanup.h"
#include "control/ctf/read/run_merge.h"
#include "options/table_text.h"
#include "report_by.h"

#define DEPTH_MAX (1u << 20) /* open calls */
#define TREE_DEPTH 200
#define NODES_MAX 200000
#define NOTE_EVENTS 4096 /* after so many the parent hears that there is progress */

/* The function that the events of a type belong to, and the duration of an exit's call. */
struct meaning {
	uint32_t function;
	const char *duration; /* the field's name */
	size_t duration_at; /* its offset in every event; 0: it varies */
};

struct open_call {
	uint32_t function, node;
	uint32_t below; /* the next call of the same function below it; REPORT_NONE: none */
	uint32_t depth; /* of its node */
	uint64_t children; /* ns */
	uint64_t inside; /* ns of calls of the same function inside it that were counted (O1) */
	uint64_t number, cycles; /* of its entry */
	uint8_t *entry; /* a copy of the event, of the function that is looked at; by key: of all */
	const struct layout_event *entry_type;
};

struct replay {
	struct report *report;
	struct view_reader *reader;
	const struct trace_input *input;
	struct run_merge merge; /* of the thread */
	const struct packet_cursor *cursor; /* the merge's, of the current item */
	uint32_t thread;
	VEC(struct open_call) stack;
	struct gap_watch watch; /* of the thread */
	uint64_t cut_before; /* clock: calls that began earlier were cut by a loss; 0: none */
	uint64_t unnoted; /* events */
	uint64_t done, whole; /* bytes of runs that were read, and of all traces */
	uint64_t entries; /* of calls, so far */
	uint64_t now; /* clock: of the last event of the thread, or of the loss behind it */
	bool failed; /* out of memory */
};

/* ---- meanings ------------------------------------------------------------------------------- */

static bool is_duration(const struct layout_place *place)
{
	return place->field->array == LAYOUT_ONE && place->field->size == 8 &&
	       !strcmp(place->field->name, "duration");
}

/* Finds out where the duration of an exit is. */
static void find_duration(const struct layout_event *type, struct meaning *meaning)
{
	static const uint8_t nothing[LAYOUT_EVENT_MAX];
	struct layout_walk walk = layout_walk_event(type, nothing);
	struct layout_place place;
	bool is_steady = true;

	while (layout_walk_next(&walk, &place)) {
		if (is_duration(&place)) {
			meaning->duration = place.field->name;
			meaning->duration_at =
				is_steady || type->is_fixed ? (size_t)(place.bytes - nothing) : 0;
			return;
		}
		is_steady &= place.field->size && place.field->array != LAYOUT_COUNTED;
	}
}

/* Several traces may have the function. */
static void add_fates(struct layout_fates *sum, const struct layout_fates *one)
{
	sum->missed += one->missed;
	sum->unwound += one->unwound;
	sum->inside += one->inside;
	sum->exits += one->exits;
}

static struct error *find_meanings(struct report *report, struct trace_input *input)
{
	for (size_t i = 0; i < input->layout.events.count; i++) {
		struct layout_event *type = input->layout.events.items[i];
		struct meaning meaning = { 0 };

		if (!type)
			continue;
		_cleanup_free_ char *name = strndup(type->name, type->stem);
		if (type->part == LAYOUT_EXIT)
			find_duration(type, &meaning);
		meaning.function = name ? report_name(report, name) : REPORT_NONE;
		type->own = malloc(sizeof(meaning));
		if (meaning.function == REPORT_NONE || !type->own)
			return error_new(ERROR_FAILED, "out of memory");
		memcpy(type->own, &meaning, sizeof(meaning));
		if (type->part == LAYOUT_EXIT)
			report->functions.items[meaning.function].has_exit = true;
		report->functions.items[meaning.function].demoted.counted += type->demoted.counted;
		report->functions.items[meaning.function].demoted.off_ns += type->demoted.off_ns;
		if (type->part == LAYOUT_ENTRY && layout_ends_unseen(&type->fates))
			add_fates(&report->functions.items[meaning.function].fates, &type->fates);
	}
	return NULL;
}

static void free_meanings(const struct own_traces *traces)
{
	for (size_t i = 0; i < traces->inputs.count; i++) {
		const struct trace_layout *layout = &traces->inputs.items[i]->layout;

		for (size_t j = 0; j < layout->events.count; j++)
			if (layout->events.items[j]) {
				free(layout->events.items[j]->own);
				layout->events.items[j]->own = NULL;
			}
	}
}

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

/* ---- the stack ------------------------------------------------------------------------------ */

static struct report_function *function_at(struct replay *replay, uint32_t index)
{
	struct report_function *function = &replay->report->functions.items[index];

	if (function->thread != replay->thread) {
		function->thread = replay->thread;
		function->top = REPORT_NONE;
		function->cut_open = 0;
	}
	return function;
}

/* ---- the listener --------------------------------------------------------------------------- */

static int64_t ns_of(const struct replay *replay, uint64_t cycles)
{
	return trace_layout_ns(&replay->input->layout, cycles);
}

/* Tells of a call that ended now; `call` is NULL if its entry isn't there. */
static void tell_end(struct replay *replay, enum report_end end, uint32_t function,
		     const struct open_call *call, uint64_t duration)
{
	struct report_listener *listener = replay->report->listener;
	uint64_t children = call ? call->children : duration;
	const struct packet_cursor *cursor = replay->cursor;
	struct report_call told = { .end = end,
				    .function = function,
				    .depth = (uint32_t)replay->stack.count,
				    .duration = duration,
				    .self = duration > children ? duration - children : 0,
				    .head = &cursor->head };

	if (!listener || !listener->end)
		return;
	told.end_ns = ns_of(replay, replay->now);
	told.entry_ns = call ? ns_of(replay, call->cycles) : told.end_ns;
	if (call) {
		told.number = call->number;
		told.entry = call->entry;
		told.entry_type = call->entry_type;
	}
	if (end == CALL_WHOLE || end == CALL_PARTIAL) {
		told.exit = cursor->event;
		told.exit_type = cursor->type;
	}
	listener->end(listener, &told);
}

static void tell_entry(struct replay *replay, const struct open_call *call)
{
	struct report_listener *listener = replay->report->listener;

	if (listener && listener->enter)
		listener->enter(listener,
				&(struct report_call){
					.end = CALL_INSIDE,
					.function = call->function,
					.depth = (uint32_t)replay->stack.count,
					.number = call->number,
					.entry_ns = ns_of(replay, call->cycles) });
}

/* ---- open calls ----------------------------------------------------------------------------- */

/* Does anybody want to see the call's entry when it ends? */
static bool keeps_entry(const struct replay *replay, const struct open_call *call)
{
	const struct report *report = replay->report;

	return (report->wanted ? call->function == report->wanted_index : report->by != NULL) ||
	       (report->listener && report->listener->keeps &&
		report->listener->keeps(report->listener, call->number));
}

static void push(struct replay *replay, const struct meaning *meaning)
{
	struct report *report = replay->report;
	struct report_function *function = function_at(replay, meaning->function);
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
	tell_entry(replay, &call);
	if (vec_push(&replay->stack, call))
		function->top = (uint32_t)replay->stack.count - 1;
	else
		replay->failed = true;
}

/* Takes the innermost call off the stack. */
static struct open_call pop(struct replay *replay)
{
	struct open_call call = replay->stack.items[--replay->stack.count];

	function_at(replay, call.function)->top = call.below;
	return call;
}

/* ---- calls that end unseen (O10) ------------------------------------------------------------- */

static enum report_end end_of(const struct report_function *function, bool is_end)
{
	static const enum report_end ends[] = { [FATE_UNWOUND] = CALL_UNWOUND,
						[FATE_INSIDE] = CALL_INSIDE,
						[FATE_MISSED] = CALL_MISSED,
						[FATE_UNKNOWN] = CALL_UNSEEN };

	return ends[layout_fate(&function->fates, is_end)];
}

/* Shares calls without an exit out by the recorder's counts, in which are also calls that a loss
 * has cut. */
static void settle_fates(struct report_function *function)
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

/* Takes a call off that ended without an exit. Its children become those of the call around it. */
static void drop(struct replay *replay, bool is_cut, bool is_end)
{
	struct open_call call = pop(replay);
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
	tell_end(replay, is_cut ? CALL_CUT : end_of(function, is_end), call.function, &call, 0);
	free(call.entry);
}

static void drop_all(struct replay *replay, bool is_cut)
{
	while (replay->stack.count)
		drop(replay, is_cut, true);
}

/* Ends the call of a function that is called again, if nothing shows that it goes on. */
static void end_unseen(struct replay *replay, uint32_t function)
{
	const struct report_function *functions = replay->report->functions.items;
	size_t at = replay->stack.count;

	while (at && layout_ends_unseen(&functions[replay->stack.items[at - 1].function].fates) &&
	       replay->stack.items[at - 1].function != function)
		at--;
	if (at && replay->stack.items[at - 1].function == function)
		while (replay->stack.count >= at)
			drop(replay, false, false);
}

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

/* Counts the current event by key: an entry or bare event, or the exit of `call` (O4). */
static void count_by_key(struct replay *replay, uint32_t function, const struct open_call *call,
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

/* ---- events --------------------------------------------------------------------------------- */

static uint64_t duration_of(const struct packet_cursor *cursor, const struct meaning *meaning)
{
	struct layout_place place;
	uint64_t ns = 0;

	if (meaning->duration_at)
		memcpy(&ns, cursor->event + meaning->duration_at, sizeof(ns));
	else if (layout_find(cursor->type, cursor->event, meaning->duration, &place))
		ns = layout_number(place.field, place.bytes);
	return ns < INT64_MAX ? ns : INT64_MAX;
}

/* (O2) Did the call begin before the last loss? */
static bool is_cut(const struct replay *replay, uint64_t duration)
{
	double cycles = (double)duration * (double)replay->input->layout.frequency / 1e9;
	uint64_t now = replay->cursor->cycles;

	return replay->cut_before &&
	       (cycles >= (double)now || now - (uint64_t)cycles < replay->cut_before);
}

/* Counts a call that ended; `call` is NULL if its entry isn't there. */
static void count_call(struct replay *replay, uint32_t index, const struct open_call *call,
		       uint64_t duration)
{
	struct report *report = replay->report;
	struct report_function *function = &report->functions.items[index];
	uint64_t children = call ? call->children : 0, inside = call ? call->inside : 0;
	uint64_t self = duration > children ? duration - children : 0;

	tell_end(replay, call ? CALL_WHOLE : CALL_PARTIAL, index, call, duration);
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
		count_by_key(replay, index, call, duration, self);
	if (report->wanted) {
		add_edges(replay, index, call != NULL, duration);
		if (index == report->wanted_index)
			add_slow(replay, call, duration);
	}
}

static void end_call(struct replay *replay, const struct meaning *meaning)
{
	struct report_function *function = function_at(replay, meaning->function);
	uint64_t duration = duration_of(replay->cursor, meaning);

	if (function->top == REPORT_NONE) {
		if (!is_cut(replay, duration)) {
			function->unseen -= function->unseen > 0; /* O10: its entry came */
			count_call(replay, meaning->function, NULL, duration);
		} else if (function->cut_open) {
			function->cut_open--; /* counted when the loss came */
		} else {
			function->cut++;
		}
		return;
	}
	while (replay->stack.count - 1 > function->top)
		drop(replay, false, false);
	struct open_call call = pop(replay);
	count_call(replay, meaning->function, &call, duration);
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
		count_by_key(replay, meaning->function, NULL, 0, 0);
	if (layout_never_exits(&type->fates)) {
		function->unseen++;
		tell_end(replay, end_of(function, false), meaning->function, NULL, 0);
	} else if (type->part == LAYOUT_ENTRY && function->has_exit) {
		if (layout_ends_unseen(&function->fates))
			end_unseen(replay, meaning->function);
		push(replay, meaning);
	} else {
		tell_end(replay, CALL_HIT, meaning->function, NULL, 0);
	}
}

static void take_loss(struct replay *replay)
{
	struct report_listener *listener = replay->report->listener;
	const struct packet_cursor *cursor = replay->cursor;

	replay->report->lost += cursor->lost;
	replay->now = replay->now > cursor->lost_begin ? replay->now : cursor->lost_begin;
	drop_all(replay, true);
	if (listener && listener->lose)
		listener->lose(listener,
			       &(struct report_loss){ .count = cursor->lost,
						      .begin_ns = ns_of(replay, cursor->lost_begin),
						      .end_ns = ns_of(replay, cursor->lost_end) });
	replay->cut_before = replay->cursor->head.timestamp_begin;
}

/* (O2) Packets are missing before the cursor's, which may be the thread's. */
static void take_gap(struct replay *replay, const struct packet_gap *gap)
{
	struct report_listener *listener = replay->report->listener;

	replay->now = replay->now > gap->begin ? replay->now : gap->begin;
	drop_all(replay, true);
	if (listener && listener->lose)
		listener->lose(listener,
			       &(struct report_loss){ .count = gap->packets,
						      .is_packets = true,
						      .begin_ns = ns_of(replay, gap->begin),
						      .end_ns = ns_of(replay, gap->end) });
	replay->cut_before = replay->cursor->head.timestamp_begin;
}

/* Is it known where the thread's open calls have their ends? */
static void end_thread(struct replay *replay)
{
	drop_all(replay, replay->input && gap_watch_end(&replay->watch, &replay->input->gaps));
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
		struct error *error = find_meanings(report, traces->inputs.items[i]);

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
	drop_all(&replay, false);
	for (size_t i = 0; i < report->functions.count; i++)
		settle_fates(&report->functions.items[i]);
	vec_free(&replay.stack);
	run_merge_free(&replay.merge);
	free_meanings(traces);
	return error;
}
