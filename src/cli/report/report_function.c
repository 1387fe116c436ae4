/*
 * report_function.c - one function closely: histogram, callers, callees, slowest calls.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "report.h"

#define EDGES_MAX 10
#define NS 1000000000

/* ---- callers and callees -------------------------------------------------------------------- */

struct edge_row {
	struct report_edge edge;
	const char *name;
};

static int by_total(const void *a, const void *b)
{
	const struct edge_row *x = a, *y = b;

	if (x->edge.total != y->edge.total)
		return x->edge.total < y->edge.total ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void add_edges(const struct report *report, const struct report_edge *edges,
		      const char *title, struct strbuf *text)
{
	size_t functions = report->functions.count, count = 0;
	_cleanup_free_ struct edge_row *rows = calloc(functions + 1, sizeof(*rows));
	/* Of all calls, also of recursive ones: shares of callers add up to 100%. */
	double total = (double)report->functions.items[report->wanted_index].durations.sum;

	for (size_t i = 0; rows && i <= functions; i++)
		if (edges[i].calls)
			rows[count++] = (struct edge_row){
				edges[i], i < functions ? report->functions.items[i].name :
							  "(a function that isn't traced)"
			};
	if (!count)
		return;
	qsort(rows, count, sizeof(*rows), by_total);
	text_own(text, title);
	text_add(text, "\n");
	for (size_t i = 0; i < count && i < EDGES_MAX; i++) {
		quote_format(text, "%10" PRIu64, rows[i].edge.calls);
		report_time(text, true, rows[i].edge.total, 10);
		quote_format(text, "%8.1f%%  %s\n",
			     total > 0 ? (double)rows[i].edge.total * 100 / total : 0.0,
			     rows[i].name);
	}
	if (count > EDGES_MAX)
		quote_format(text, "  (and %zu more)\n", count - EDGES_MAX);
}

/* ---- slowest calls -------------------------------------------------------------------------- */

static void add_clock(struct strbuf *text, int64_t ns, unsigned digits)
{
	int64_t second = ns / NS - (ns % NS < 0);
	time_t seconds = (time_t)second;
	uint64_t fraction = (uint64_t)(ns - second * NS);
	char clock[16];
	struct tm tm;

	for (unsigned i = digits; i < 9; i++)
		fraction /= 10;
	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &tm));
	text_own(text, clock);
	text_add(text, ".");
	text_padded(text, fraction, digits);
}

static void add_slowest(const struct report *report, const char *path, struct strbuf *text)
{
	if (!report->slow_count)
		return;
	text_add(text, "slowest\n");
	for (size_t i = 0; i < report->slow_count; i++) {
		const struct report_slow *slow = &report->slowest[i];

		report_time(text, true, slow->duration, 10);
		text_add(text, "  ");
		add_clock(text, slow->begin_ns, 9);
		/* the text of a call was escaped when it was made */
		quote_format(text, "  tid %u  %s\n", slow->tid, slow->text ? slow->text : "");
	}
	text_add(text, "(dyntrace view --around ");
	add_clock(text, report->slowest[0].begin_ns, 6);
	quote_format(text, " %s)\n", path);
}

static void add_cell(struct strbuf *text, const char *name, bool is_known, uint64_t ns)
{
	quote_format(text, "   %s ", name);
	report_time(text, is_known, ns, 0);
}

void report_function(const struct report *report, const struct report_options *options,
		     struct strbuf *text)
{
	const struct report_function *f = &report->functions.items[report->wanted_index];
	struct calls_name name;
	struct calls_row row = report_row(f, &name);
	bool any = row.calls > 0;

	if (!f->has_exit) {
		quote_format(text, "%s: hits %" PRIu64 " (no durations: 'trace -e' records exits)\n",
			     f->name, f->hits);
		return;
	}
	quote_format(text, "calls %" PRIu64, row.calls);
	add_cell(text, "total", any, (uint64_t)row.total);
	add_cell(text, "self", row.has_self, (uint64_t)row.self);
	add_cell(text, "mean", any, (uint64_t)row.mean);
	add_cell(text, "p50", any, (uint64_t)row.p50);
	add_cell(text, "p99", any, (uint64_t)row.p99);
	add_cell(text, "max", any, (uint64_t)row.max);
	text_add(text, "\n");
	calls_histogram(&f->durations, true, options->linear, text);
	add_edges(report, report->callers.items, "callers", text);
	add_edges(report, report->callees.items, "callees", text);
	add_slowest(report, options->path, text);
	report_notes(report, text);
}
