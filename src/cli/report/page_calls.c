/*
 * page_calls.c - calls as columns of small numbers.
 *
 * Times are differences that are small as a rule: of a call without calls inside it, from the end
 * before it to its begin and from its begin to its end; of one around others, from its begin to
 * theirs and from their end to its own. page/data.js does the same backward.
 */
#include "page.h"

#include <string.h>

#include "options/table_text.h"

#define TIME_MAX (1LL << 50) /* ns: 13 days; numbers of a script are exact up to 2^53 */
#define NONE INT64_MIN
#define SUM_ROWS 1000000u /* about as many of them in a page */

/* ---- slowest calls -------------------------------------------------------------------------- */

static void note_slow(struct page_calls *calls, const struct report_call *call)
{
	while (calls->slowest.count <= call->function)
		if (!vec_push(&calls->slowest, (struct page_slowest){ 0 })) {
			calls->failed = true;
			return;
		}
	struct page_slowest *list = &calls->slowest.items[call->function];
	uint32_t at = list->count;

	while (at && list->calls[at - 1].duration < call->duration)
		at--;
	if (at >= PAGE_SLOWEST)
		return;
	list->count += list->count < PAGE_SLOWEST;
	memmove(&list->calls[at + 1], &list->calls[at],
		(list->count - at - 1) * sizeof(*list->calls));
	list->calls[at] = (struct page_slow){ call->duration, call->number };
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool sort_numbers(struct page_calls *calls)
{
	size_t room = calls->slowest.count * PAGE_SLOWEST + 1;

	calls->numbers = calloc(room, sizeof(*calls->numbers));
	if (!calls->numbers)
		return false;
	for (size_t i = 0; i < calls->slowest.count; i++)
		for (uint32_t j = 0; j < calls->slowest.items[i].count; j++)
			calls->numbers[calls->number_count++] =
				calls->slowest.items[i].calls[j].number;
	qsort(calls->numbers, calls->number_count, sizeof(*calls->numbers), by_number);
	return true;
}

/* Entries come in the order of their numbers. */
static bool keeps(struct report_listener *listener, uint64_t number)
{
	struct page_calls *calls = (struct page_calls *)listener;

	while (calls->next_number < calls->number_count &&
	       calls->numbers[calls->next_number] < number)
		calls->next_number++;
	return calls->is_second && calls->next_number < calls->number_count &&
	       calls->numbers[calls->next_number] == number;
}

static void add_argument(struct page_calls *calls, const struct report_call *call)
{
	struct viewer *viewer = calls->viewer;
	struct strbuf *text = &viewer->line.text;
	struct layout_place ret;

	text->length = 0;
	view_own_modules(viewer, &calls->input->layout);
	view_own_fields(viewer, call->entry_type, call->entry);
	if (call->exit && layout_find(call->exit_type, call->exit, "ret", &ret)) {
		text_add(text, text->length ? " -> " : "-> ");
		view_own_value(viewer, &ret, call->exit);
	}
	struct page_argument argument = { calls->kept,
					  text->length ? strdup(text->text) : NULL };
	text->length = 0;
	if (argument.text && !vec_push(&calls->arguments, argument)) {
		free(argument.text);
		calls->failed = true;
	}
}

/* ---- sums ----------------------------------------------------------------------------------- */

static void flush_sums(struct page_calls *calls)
{
	for (size_t i = 0; i < calls->sums.count; i++) {
		const struct page_sum *sum = &calls->sums.items[i];

		page_column_add(&calls->columns[COLUMN_BUCKET], calls->bucket);
		page_column_add(&calls->columns[COLUMN_BUCKET_FUNCTION], sum->function);
		page_column_add(&calls->columns[COLUMN_BUCKET_DEPTH], sum->depth);
		page_column_add(&calls->columns[COLUMN_BUCKET_CALLS], sum->calls);
		page_column_add(&calls->columns[COLUMN_BUCKET_TOTAL], sum->total);
		page_column_add(&calls->columns[COLUMN_BUCKET_SELF], sum->self);
	}
	if (calls->threads.count)
		vec_last(&calls->threads)->sums += calls->sums.count;
	calls->sums.count = 0;
	if (calls->sum_slots)
		memset(calls->sum_slots, 0, calls->sum_room * sizeof(*calls->sum_slots));
}

static size_t slot_of(const struct page_calls *calls, uint32_t function, uint32_t depth)
{
	size_t slot = (function * 2654435761u ^ depth * 40503u) & (calls->sum_room - 1);

	for (; calls->sum_slots[slot]; slot = (slot + 1) & (calls->sum_room - 1)) {
		const struct page_sum *sum = &calls->sums.items[calls->sum_slots[slot] - 1];

		if (sum->function == function && sum->depth == depth)
			break;
	}
	return slot;
}

static bool grow_slots(struct page_calls *calls)
{
	size_t room = calls->sum_room ? calls->sum_room * 2 : 256;
	uint32_t *wider = calloc(room, sizeof(*wider));

	if (!wider)
		return false;
	free(calls->sum_slots);
	calls->sum_slots = wider;
	calls->sum_room = room;
	for (size_t i = 0; i < calls->sums.count; i++)
		wider[slot_of(calls, calls->sums.items[i].function, calls->sums.items[i].depth)] =
			(uint32_t)i + 1;
	return true;
}

static void add_sum(struct page_calls *calls, const struct report_call *call, int64_t end)
{
	uint64_t bucket = end > 0 ? (uint64_t)end / calls->bucket_ns : 0;

	calls->left++;
	if (bucket != calls->bucket)
		flush_sums(calls);
	calls->bucket = bucket;
	if (calls->sums.count * 2 >= calls->sum_room && !grow_slots(calls)) {
		calls->failed = true;
		return;
	}
	size_t slot = slot_of(calls, call->function, call->depth);
	if (!calls->sum_slots[slot]) {
		struct page_sum new = { .function = call->function, .depth = call->depth };

		if (!vec_push(&calls->sums, new)) {
			calls->failed = true;
			return;
		}
		calls->sum_slots[slot] = (uint32_t)calls->sums.count;
	}
	struct page_sum *sum = &calls->sums.items[calls->sum_slots[slot] - 1];
	bool has_duration = call->end == CALL_WHOLE || call->end == CALL_PARTIAL;
	sum->calls += has_duration || call->end == CALL_HIT;
	sum->total += call->duration;
	sum->self += call->self;
}

/* ---- records -------------------------------------------------------------------------------- */

static int64_t clamp_time(int64_t ns)
{
	return ns < -TIME_MAX ? -TIME_MAX : ns > TIME_MAX ? TIME_MAX : ns;
}

static bool make_depths(struct page_calls *calls, uint32_t count)
{
	while (calls->child_begins.count < count)
		if (!vec_push(&calls->child_begins, NONE))
			return false;
	return true;
}

static uint64_t zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static void add_record(struct page_calls *calls, const struct report_call *call, int64_t begin,
		       int64_t end)
{
	struct page_column *columns = calls->columns;
	int64_t step = (int64_t)call->depth - calls->depth_before;

	if (!make_depths(calls, call->depth + 2)) {
		calls->failed = true;
		return;
	}
	int64_t *child = &calls->child_begins.items[call->depth + 1],
		*own = &calls->child_begins.items[call->depth];
	page_column_add(&columns[COLUMN_FUNCTION], call->function);
	page_column_add(&columns[COLUMN_SHAPE], zigzag(step) * CALL_ENDS + call->end);
	page_column_add_signed(&columns[COLUMN_FIRST],
			       *child == NONE ? begin - calls->end_before : *child - begin);
	page_column_add_signed(&columns[COLUMN_SECOND],
			       *child == NONE ? end - begin : end - calls->end_before);
	if (calls->is_reduced)
		page_column_add(&columns[COLUMN_SELF], call->self);
	*child = NONE;
	if (*own == NONE)
		*own = begin;
	calls->end_before = end;
	calls->depth_before = call->depth;
	calls->kept++;
	vec_last(&calls->threads)->calls++;
	memcpy(vec_last(&calls->threads)->name, call->head->procname, WRITER_PROCESS_SIZE);
}

/* Is the call too short for a page of so many? Calls without a duration stay, while they are
 * few. */
static bool is_left(const struct page_calls *calls, const struct report_call *call)
{
	if (!calls->is_reduced || call->entry)
		return false;
	if (call->end == CALL_WHOLE || call->end == CALL_PARTIAL)
		return call->duration < calls->resolution || calls->kept >= calls->limits->kept * 2;
	return call->end == CALL_HIT || calls->kept >= calls->limits->kept * 2;
}

static void take_end(struct report_listener *listener, const struct report_call *call)
{
	struct page_calls *calls = (struct page_calls *)listener;
	bool has_duration = call->end == CALL_WHOLE || call->end == CALL_PARTIAL;
	int64_t end = clamp_time(call->end_ns - calls->first_ns),
		begin = has_duration ? clamp_time(end - clamp_time((int64_t)call->duration)) :
				       clamp_time(call->entry_ns - calls->first_ns);

	if (calls->is_second && calls->failed)
		return;
	if (!calls->is_second) {
		calls->records++;
		if (call->end == CALL_WHOLE)
			note_slow(calls, call);
	} else if (is_left(calls, call)) {
		add_sum(calls, call, end);
	} else {
		if (call->entry && call->end == CALL_WHOLE)
			add_argument(calls, call);
		add_record(calls, call, begin, end);
	}
}

static void begin_thread(struct report_listener *listener, const struct trace_input *input,
			 const struct trace_run *run)
{
	struct page_calls *calls = (struct page_calls *)listener;
	struct page_thread thread = { .pid = run->pid, .tid = run->tid };

	if (!calls->is_second)
		return;
	flush_sums(calls);
	calls->input = input;
	calls->bucket = 0;
	calls->end_before = 0;
	calls->depth_before = 0;
	calls->child_begins.count = 0;
	calls->failed |= !vec_push(&calls->threads, thread);
}

static void take_loss(struct report_listener *listener, const struct report_loss *loss)
{
	struct page_calls *calls = (struct page_calls *)listener;

	if (calls->is_second)
		calls->failed |= !vec_push(&calls->losses,
					   (struct page_loss){
						   (uint32_t)calls->threads.count - 1,
						   calls->kept, *loss });
}

const struct report_listener page_calls_listener = {
	.begin_thread = begin_thread,
	.end = take_end,
	.lose = take_loss,
	.keeps = keeps,
};

/* ---- both readings -------------------------------------------------------------------------- */

static uint64_t longer_than(const struct report *report, uint64_t ns)
{
	struct distribution_bar bars[DISTRIBUTION_BARS_MAX];
	uint64_t count = 0;

	for (size_t i = 0; i < report->functions.count; i++) {
		unsigned n = distribution_bars(&report->functions.items[i].durations, false, bars);

		for (unsigned j = 0; j < n; j++)
			if (bars[j].low < 0 || (uint64_t)bars[j].low >= ns)
				count += bars[j].count;
	}
	return count;
}

/* (O8) Finds the least resolution with which the calls that stay are few enough. */
static void choose_resolution(struct page_calls *calls, const struct report *report)
{
	uint64_t span = (uint64_t)(calls->last_ns - calls->first_ns), buckets;
	uint64_t kinds = report->nodes.count + 1;

	calls->is_reduced = calls->records > calls->limits->calls;
	calls->resolution = calls->is_reduced;
	while (calls->is_reduced && calls->resolution < 1ULL << 62 &&
	       longer_than(report, calls->resolution) > calls->limits->kept)
		calls->resolution *= 2;
	buckets = SUM_ROWS / kinds < calls->limits->buckets ? SUM_ROWS / kinds :
							      calls->limits->buckets;
	calls->bucket_ns = span / (buckets > 64 ? buckets : 64) + 1;
}

struct error *page_calls_second(struct page_calls *calls, const struct report *report)
{
	calls->is_second = true;
	calls->first_ns = report->first_ns <= report->last_ns ? report->first_ns : 0;
	calls->last_ns = report->first_ns <= report->last_ns ? report->last_ns : 0;
	choose_resolution(calls, report);
	calls->columns = calloc(PAGE_COLUMNS, sizeof(*calls->columns));
	if (calls->failed || !calls->columns || !sort_numbers(calls))
		return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

bool page_calls_end(struct page_calls *calls)
{
	flush_sums(calls);
	for (int i = 0; i < PAGE_COLUMNS; i++)
		calls->failed |= !page_column_end(&calls->columns[i]);
	return !calls->failed;
}

void page_calls_free(struct page_calls *calls)
{
	for (int i = 0; calls->columns && i < PAGE_COLUMNS; i++)
		page_column_free(&calls->columns[i]);
	for (size_t i = 0; i < calls->arguments.count; i++)
		free(calls->arguments.items[i].text);
	free(calls->columns);
	free(calls->numbers);
	free(calls->sum_slots);
	vec_free(&calls->slowest);
	vec_free(&calls->threads);
	vec_free(&calls->losses);
	vec_free(&calls->arguments);
	vec_free(&calls->child_begins);
	vec_free(&calls->sums);
}
