/*
 * report_table.c - the table of functions, as text, JSON and CSV.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "report.h"

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

struct calls_row report_row(const struct report_function *f, struct calls_name *name)
{
	struct calls_row row = {
		.names = name,
		.has_values = f->has_exit,
		.has_self = f->durations.count > f->partial,
		.has_fates = f->has_exit,
		.hits = f->hits + f->demoted.counted,
		.counted = f->demoted.counted,
		.off = f->demoted.off_ns,
		.unwound = f->unwound,
		.inside = f->inside,
		.missed = f->missed,
		.cut = f->cut,
		.partial = f->partial,
	};

	*name = (struct calls_name){ .text = f->name };
	calls_row_take(&row, &f->durations);
	row.total = (int64_t)f->total; /* O1: not the sum */
	row.self = (int64_t)f->self;
	return row;
}

static void add_note(struct strbuf *text, uint64_t count, const char *one, const char *several)
{
	if (count)
		quote_format(text, "%" PRIu64 " %s\n", count, count == 1 ? one : several);
}

/* Names the functions that were only counted for a time. */
static void add_demoted(const struct report *report, struct strbuf *text)
{
	size_t functions = report->functions.count, count = 0;
	_cleanup_free_ struct calls_row *rows = calloc(functions + 1, sizeof(*rows));
	_cleanup_free_ struct calls_name *names = calloc(functions + 1, sizeof(*names));

	for (size_t i = 0; i < functions && rows && names; i++) {
		const struct report_function *f = &report->functions.items[i];

		if (!f->demoted.counted && !f->demoted.off_ns)
			continue;
		rows[count] = report_row(f, &names[count]);
		count++;
	}
	calls_table_demoted(rows, count, text);
}

void report_notes(const struct report *report, struct strbuf *text)
{
	uint64_t cut = 0, partial = 0;
	struct calls_fates fates = { 0 };

	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *f = &report->functions.items[i];

		cut += f->cut;
		partial += f->partial;
		fates.unwound += f->unwound;
		fates.inside += f->inside;
		fates.missed += f->missed;
	}
	add_note(text, report->lost, "event was lost", "events were lost");
	add_note(text, report->lost_packets, "packet of events is missing in the trace",
		 "packets of events are missing in the trace");
	add_note(text, cut, "call was cut by the loss: it is in no number above",
		 "calls were cut by the loss: they are in no number above");
	calls_table_fates(&fates, text);
	if (fates.missed)
		text_add(text, "calls that are shown inside missed ones may have come after them\n");
	add_demoted(report, text);
	add_note(text, partial, "call whose entry isn't known: it has no self time",
		 "calls whose entries aren't known: they have no self time");
}

static void add_json(const struct report *report, const struct calls_table *table,
		     struct strbuf *text)
{
	quote_format(text, "{\"events\":%" PRIu64 ",\"lost\":%" PRIu64
		     ",\"lost_packets\":%" PRIu64 ",\"threads\":%" PRIu64 ",\"functions\":",
		     report->events, report->lost, report->lost_packets, report->threads);
	calls_table_json(table, text);
	text_add(text, "}\n");
}

/* The rows that are shown, sorted. */
static size_t collect_rows(const struct report *report, const struct report_options *options,
			   struct calls_row *rows, struct calls_name *names)
{
	size_t count = 0;

	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *f = &report->functions.items[i];

		if (options->all_rows || f->hits || f->durations.count || f->demoted.counted) {
			rows[count] = report_row(f, &names[count]);
			count++;
		}
	}
	calls_table_sort(rows, count, options->sort, has_exits(report));
	return count;
}

void report_table(const struct report *report, const struct report_options *options,
		  struct strbuf *text)
{
	static const char *const titles[] = { "function" };
	size_t functions = report->functions.count;
	_cleanup_free_ struct calls_row *rows = calloc(functions + 1, sizeof(*rows));
	_cleanup_free_ struct calls_name *names = calloc(functions + 1, sizeof(*names));
	struct calls_table table = {
		.titles = titles,
		.title_count = 1,
		.columns = CALLS_HAS_SELF | CALLS_HAS_FATES | CALLS_HAS_MISSED |
			   CALLS_HAS_CUT,
		.has_values = has_exits(report),
		.is_time = true,
		.is_wide = options->wide,
		.has_histograms = options->hist,
		.is_linear = options->linear,
		.rows = rows,
	};

	if (!rows || !names) {
		text->failed = true;
		return;
	}
	table.count = collect_rows(report, options, rows, names);
	table.columns |= calls_table_counted(rows, table.count);
	uint64_t most = options->top	  ? options->top :
			options->all_rows || options->form != FORM_TEXT ? UINT64_MAX :
								  CALLS_ROWS_USUAL;
	if (table.count > most) {
		table.left = table.count - most;
		table.count = most;
	}
	if (options->form == FORM_JSON) {
		add_json(report, &table, text);
	} else if (options->form == FORM_CSV) {
		calls_table_csv(&table, text);
	} else {
		calls_table_text(&table, text);
		report_notes(report, text);
	}
}
