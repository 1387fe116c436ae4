/*
 * report_table.c - the table of functions, as text, JSON and CSV, and of two traces side by side.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "report.h"

#define ROWS_USUAL 40

/* ---- values and order ----------------------------------------------------------------------- */

uint64_t report_mean(const struct report_function *f)
{
	return f->calls ? f->sum / f->calls : 0;
}

/* Calls with an exit, or hits. */
static uint64_t count_of(const struct report_function *f)
{
	return f->has_exit ? f->calls : f->hits;
}

static uint64_t value_of(const struct report_function *f, enum report_sort sort)
{
	switch (sort) {
	case SORT_CALLS: return count_of(f);
	case SORT_SELF: return f->self;
	case SORT_MEAN: return report_mean(f);
	case SORT_P50: return report_quantile(f, 0.50);
	case SORT_P99: return report_quantile(f, 0.99);
	case SORT_MAX: return f->max;
	default: return f->total;
	}
}

struct sort_row {
	uint64_t value, count;
	const char *name;
	uint32_t index;
};

static int compare_rows(const void *a, const void *b)
{
	const struct sort_row *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return strcmp(x->name, y->name);
}

uint32_t *report_sorted(const struct report *report, enum report_sort sort)
{
	size_t count = report->functions.count;
	_cleanup_free_ struct sort_row *rows = calloc(count + 1, sizeof(*rows));
	uint32_t *order = calloc(count + 1, sizeof(*order));

	for (size_t i = 0; rows && i < count; i++) {
		const struct report_function *f = &report->functions.items[i];

		rows[i] = (struct sort_row){ .name = f->name, .index = (uint32_t)i };
		if (sort == SORT_NAME)
			continue;
		rows[i].value = value_of(f, sort);
		rows[i].count = count_of(f);
	}
	if (!rows || !order) {
		free(order);
		return NULL;
	}
	qsort(rows, count, sizeof(*rows), compare_rows);
	for (size_t i = 0; i < count; i++)
		order[i] = rows[i].index;
	return order;
}

/* ---- text ----------------------------------------------------------------------------------- */

void report_time(struct strbuf *text, bool is_known, uint64_t ns, int width)
{
	char time[TIME_TEXT] = "-";

	if (is_known)
		time_text(ns, time);
	quote_format(text, "%*s", width, time);
}

static bool has_exits(const struct report *report)
{
	for (size_t i = 0; i < report->functions.count; i++)
		if (report->functions.items[i].has_exit)
			return true;
	return false;
}

static void add_head(const struct report_options *options, bool exits, struct strbuf *text)
{
	quote_format(text, "%9s", exits ? "calls" : "hits");
	if (exits)
		quote_format(text, "%10s%10s%10s", "total", "self", "mean");
	if (exits && options->wide)
		quote_format(text, "%10s%10s", "p50", "p90");
	if (exits)
		quote_format(text, "%10s%10s", "p99", "max");
	if (exits && options->wide)
		quote_format(text, "%9s%9s%9s", "unwound", "inside", "cut");
	quote_format(text, "  function\n");
}

static void add_row(const struct report_function *f, const struct report_options *options,
		    bool exits, struct strbuf *text)
{
	bool any = f->calls > 0;

	quote_format(text, "%9" PRIu64, count_of(f));
	if (exits) {
		report_time(text, any, f->total, 10);
		report_time(text, f->calls > f->partial, f->self, 10);
		report_time(text, any, report_mean(f), 10);
	}
	if (exits && options->wide) {
		report_time(text, any, report_quantile(f, 0.50), 10);
		report_time(text, any, report_quantile(f, 0.90), 10);
	}
	if (exits) {
		report_time(text, any, report_quantile(f, 0.99), 10);
		report_time(text, any, f->max, 10);
	}
	if (exits && options->wide)
		quote_format(text, "%9" PRIu64 "%9" PRIu64 "%9" PRIu64, f->unwound, f->inside,
			     f->cut);
	quote_format(text, "  %s\n", f->name);
}

static void add_note(struct strbuf *text, uint64_t count, const char *what)
{
	if (count)
		quote_format(text, "%" PRIu64 " %s\n", count, what);
}

void report_notes(const struct report *report, struct strbuf *text)
{
	uint64_t cut = 0, partial = 0, unwound = 0, inside = 0;

	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *f = &report->functions.items[i];

		cut += f->cut;
		partial += f->partial;
		unwound += f->unwound;
		inside += f->inside;
	}
	add_note(text, report->lost, "events were lost");
	add_note(text, cut, "calls were cut by the loss: they are in no number above");
	add_note(text, unwound, "calls ended without an exit: by an exception, longjmp or a tail call");
	add_note(text, inside, "calls hadn't ended yet");
	add_note(text, partial, "calls without an entry in the trace: they have no self time");
}

static bool is_shown(const struct report_function *f, const struct report_options *options)
{
	return options->all_rows || f->hits || f->calls;
}

static void add_text(const struct report *report, const struct report_options *options,
		     const uint32_t *order, struct strbuf *text)
{
	uint64_t most = options->top ? options->top : options->all_rows ? UINT64_MAX : ROWS_USUAL;
	bool exits = has_exits(report);
	uint64_t shown = 0, left = 0;

	add_head(options, exits, text);
	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *f = &report->functions.items[order[i]];

		if (!is_shown(f, options))
			continue;
		if (shown++ >= most) {
			left++;
			continue;
		}
		add_row(f, options, exits, text);
		if (options->hist && f->calls)
			report_histogram(f, text);
	}
	if (left)
		quote_format(text, "(and %" PRIu64 " more: --all-rows)\n", left);
	report_notes(report, text);
}

/* ---- JSON and CSV --------------------------------------------------------------------------- */

static uint64_t get_hits(const struct report_function *f) { return f->hits; }
static uint64_t get_calls(const struct report_function *f) { return f->calls; }
static uint64_t get_total(const struct report_function *f) { return f->total; }
static uint64_t get_self(const struct report_function *f) { return f->self; }
static uint64_t get_p50(const struct report_function *f) { return report_quantile(f, 0.50); }
static uint64_t get_p90(const struct report_function *f) { return report_quantile(f, 0.90); }
static uint64_t get_p99(const struct report_function *f) { return report_quantile(f, 0.99); }
static uint64_t get_max(const struct report_function *f) { return f->max; }
static uint64_t get_unwound(const struct report_function *f) { return f->unwound; }
static uint64_t get_inside(const struct report_function *f) { return f->inside; }
static uint64_t get_cut(const struct report_function *f) { return f->cut; }
static uint64_t get_partial(const struct report_function *f) { return f->partial; }

/* Columns for programs: all of them, in ns. */
static const struct {
	const char *name;
	uint64_t (*value)(const struct report_function *f);
} numbers[] = {
	{ "hits", get_hits },	    { "calls", get_calls },	{ "total_ns", get_total },
	{ "self_ns", get_self },    { "mean_ns", report_mean },	{ "p50_ns", get_p50 },
	{ "p90_ns", get_p90 },	    { "p99_ns", get_p99 },	{ "max_ns", get_max },
	{ "unwound", get_unwound }, { "inside", get_inside },	{ "cut", get_cut },
	{ "partial", get_partial },
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static void add_json(const struct report *report, const struct report_options *options,
		     const uint32_t *order, struct strbuf *text)
{
	bool any = false;

	quote_format(text, "{\"events\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"threads\":%" PRIu64
		     ",\"functions\":[", report->events, report->lost, report->threads);
	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *f = &report->functions.items[order[i]];

		if (!is_shown(f, options))
			continue;
		text_add(text, any ? ",\n{" : "\n{");
		any = true;
		text_add_json(text, "name", f->name);
		for (size_t j = 0; j < NUMBERS; j++)
			quote_format(text, ",\"%s\":%" PRIu64, numbers[j].name,
				     numbers[j].value(f));
		text_add(text, "}");
	}
	text_add(text, "\n]}\n");
}

static void add_csv(const struct report *report, const struct report_options *options,
		    const uint32_t *order, struct strbuf *text)
{
	text_add(text, "function");
	for (size_t j = 0; j < NUMBERS; j++)
		quote_format(text, ",%s", numbers[j].name);
	text_add(text, "\n");
	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *f = &report->functions.items[order[i]];

		if (!is_shown(f, options))
			continue;
		text_add_csv(text, f->name, strlen(f->name));
		for (size_t j = 0; j < NUMBERS; j++)
			quote_format(text, ",%" PRIu64, numbers[j].value(f));
		text_add(text, "\n");
	}
}

void report_table(const struct report *report, const struct report_options *options,
		  struct strbuf *text)
{
	enum report_sort sort = options->sort != SORT_DEFAULT ? options->sort :
				has_exits(report)	      ? SORT_TOTAL :
								SORT_CALLS;
	_cleanup_free_ uint32_t *order = report_sorted(report, sort);

	if (!order)
		text->failed = true;
	else if (options->form == FORM_JSON)
		add_json(report, options, order, text);
	else if (options->form == FORM_CSV)
		add_csv(report, options, order, text);
	else
		add_text(report, options, order, text);
}

/* ---- two traces ----------------------------------------------------------------------------- */

struct diff_row {
	const char *name;
	const struct report_function *before, *after;
	uint64_t change; /* of the total, its amount */
};

static int by_change(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;

	if (x->change != y->change)
		return x->change < y->change ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void add_diff_row(const struct diff_row *row, bool is_json, struct strbuf *text)
{
	static const struct report_function none;
	const struct report_function *a = row->before ? row->before : &none,
				     *b = row->after ? row->after : &none;

	if (is_json) {
		text_add(text, "{");
		text_add_json(text, "name", row->name);
		quote_format(text, ",\"calls\":[%" PRIu64 ",%" PRIu64 "],\"total_ns\":[%" PRIu64
			     ",%" PRIu64 "],\"mean_ns\":[%" PRIu64 ",%" PRIu64 "]}",
			     count_of(a), count_of(b), a->total, b->total, report_mean(a),
			     report_mean(b));
		return;
	}
	quote_format(text, "%9" PRIu64 "%9" PRIu64, count_of(a), count_of(b));
	report_time(text, a->calls > 0, a->total, 10);
	report_time(text, b->calls > 0, b->total, 10);
	char change[TIME_TEXT];
	time_text(row->change, change);
	quote_format(text, "%4s%s", b->total > a->total ? "+" : a->total > b->total ? "-" : " ",
		     change);
	for (size_t i = strlen(change); i < 9; i++)
		text_add(text, " ");
	double ratio = a->total ? (double)b->total / (double)a->total : 0;
	if (ratio >= 10)
		quote_format(text, "%7.0fx", ratio);
	else if (a->total)
		quote_format(text, "%+7.1f%%", (ratio - 1) * 100);
	else
		quote_format(text, "%8s", b->total ? "new" : "");
	quote_format(text, "  %s\n", row->name);
}

static size_t collect(const struct report *before, const struct report *after,
		      struct diff_row *rows)
{
	size_t count = 0;

	for (size_t i = 0; i < before->functions.count; i++) {
		const struct report_function *f = &before->functions.items[i];
		uint32_t other = report_find(after, f->name);

		rows[count++] = (struct diff_row){
			f->name, f, other == REPORT_NONE ? NULL : &after->functions.items[other], 0
		};
	}
	for (size_t i = 0; i < after->functions.count; i++)
		if (report_find(before, after->functions.items[i].name) == REPORT_NONE)
			rows[count++] = (struct diff_row){ after->functions.items[i].name, NULL,
							   &after->functions.items[i], 0 };
	for (size_t i = 0; i < count; i++) {
		uint64_t a = rows[i].before ? rows[i].before->total : 0,
			 b = rows[i].after ? rows[i].after->total : 0;

		rows[i].change = a > b ? a - b : b - a;
	}
	return count;
}

void report_diff(const struct report *before, const struct report *after,
		 const struct report_options *options, struct strbuf *text)
{
	size_t room = before->functions.count + after->functions.count + 1;
	_cleanup_free_ struct diff_row *rows = calloc(room, sizeof(*rows));
	bool is_json = options->form == FORM_JSON;
	uint64_t most = options->top ? options->top : options->all_rows ? UINT64_MAX : ROWS_USUAL;

	if (!rows) {
		text->failed = true;
		return;
	}
	size_t count = collect(before, after, rows);
	qsort(rows, count, sizeof(*rows), by_change);
	if (!is_json)
		quote_format(text, "%9s%9s%10s%10s%13s%8s  function\n", "calls", "now", "total",
			     "now", "change   ", "");
	text_add(text, is_json ? "[" : "");
	for (size_t i = 0; i < count && (is_json || i < most); i++) {
		if (is_json)
			text_add(text, i ? ",\n" : "\n");
		add_diff_row(&rows[i], is_json, text);
	}
	text_add(text, is_json ? "\n]\n" : "");
	if (!is_json && count > most)
		quote_format(text, "(and %zu more: --all-rows)\n", count - (size_t)most);
}
