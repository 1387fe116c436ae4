/*
 * report_diff.c - two traces side by side.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "report.h"

/* Calls with an exit, or hits. */
static uint64_t count_of(const struct report_function *f)
{
	return f->has_exit ? f->durations.count : f->hits;
}

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

static uint64_t mean_of(const struct report_function *f)
{
	return (uint64_t)distribution_mean(&f->durations);
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
			     count_of(a), count_of(b), a->total, b->total, mean_of(a),
			     mean_of(b));
		return;
	}
	quote_format(text, "%9" PRIu64 "%9" PRIu64, count_of(a), count_of(b));
	report_time(text, a->durations.count > 0, a->total, 10);
	report_time(text, b->durations.count > 0, b->total, 10);
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
	uint64_t most = options->top	  ? options->top :
			options->all_rows ? UINT64_MAX :
					    CALLS_ROWS_USUAL;

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
