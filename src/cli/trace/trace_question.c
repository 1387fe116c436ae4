#include "trace_question.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/tracers/count/count_rows.h"
#include "options/commands.h"
#include "options/table_text.h"

static struct question question;

bool trace_question_asked(void)
{
	return trace_args.question.by || trace_args.question.of;
}

static struct error *check_alone(void)
{
	const struct question_args *args = &trace_args.question;

	if (args->hist || args->sort || args->top_text || args->keys_text)
		return error_new(ERROR_USAGE,
				 "--hist, --linear, --sort, --top and --keys: need --by KEY or --of VALUE");
	if (trace_args.reset || trace_args.csv || trace_args.each > 0)
		return error_new(ERROR_USAGE,
				 "--each, --reset and --csv: need --by KEY or --of VALUE");
	return NULL;
}

struct error *trace_question_check(void)
{
	struct error *error = question_options_read(&trace_args.question, &question);

	if (error)
		return error;
	if (!trace_question_asked())
		return check_alone();
	if (trace_args.tracer->kind != TRACER_COUNT)
		return error_new(ERROR_USAGE, "%s: needs --tracer count (or ask the trace: dyntrace "
				 "report --by)", trace_args.question.by ? "--by" : "--of");
	if (trace_args.follow_exec)
		return error_new(ERROR_USAGE, "--by, --of: not with --follow-exec");
	if (trace_args.reset && trace_args.each <= 0)
		return error_new(ERROR_USAGE, "--reset: needs --each SECONDS");
	if (trace_args.summary.is_json && trace_args.csv)
		return error_new(ERROR_USAGE, "--json and --csv: choose one");
	return NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void fill_row(const struct count_rows *rows, const struct count_row *from,
		     struct calls_name *names, struct calls_row *row)
{
	size_t count = question.key_count ? question.key_count : 1;

	for (size_t i = 0; i < count; i++) {
		names[i].text = from->names[i] ? from->names[i] : i ? "" : "(other keys)";
		names[i].is_number = from->is_number[i];
	}
	*row = (struct calls_row){ .names = names,
				   .has_values = rows->has_values,
				   .hits = from->hits };
	if (!rows->has_values)
		return;
	calls_row_take(row, &from->values);
	row->total = from->total;
	row->self = from->self;
	row->has_self = rows->is_time;
}

/* Joins the rows from `first` on into one, for --top. */
static struct calls_row join_rest(const struct count_rows *rows, struct calls_row *sorted,
				  size_t first, size_t count, struct distribution *values,
				  struct calls_name *names, char *text, size_t size)
{
	struct calls_row rest = { .names = names, .has_values = rows->has_values };
	int64_t total = 0, self = 0;

	for (size_t i = first; i < count; i++) {
		rest.hits += sorted[i].hits;
		total += sorted[i].total;
		self += sorted[i].self;
		if (sorted[i].values)
			distribution_merge(values, sorted[i].values);
	}
	bool is_open = rows->rows.items[count - 1].is_other; /* how many those are is unknown */
	snprintf(text, size, "(other keys: %s%zu)", is_open ? "over " : "", count - first - is_open);
	memset(names, 0, CALLS_NAMES_MAX * sizeof(*names));
	for (size_t i = 0; i < CALLS_NAMES_MAX; i++)
		names[i].text = i ? "" : text;
	if (!rows->has_values)
		return rest;
	calls_row_take(&rest, values);
	rest.total = total;
	rest.self = self;
	rest.has_self = rows->is_time;
	return rest;
}

/* ---- printing -------------------------------------------------------------------------------- */

static bool is_for_programs(void)
{
	return trace_args.summary.is_json || trace_args.csv;
}

static void print_table(const struct calls_table *table)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };

	if (trace_args.summary.is_json)
		calls_table_json(table, &text);
	else if (trace_args.csv)
		calls_table_csv(table, &text);
	else
		calls_table_text(table, &text);
	if (trace_args.summary.is_json)
		text_add(&text, "\n");
	if (is_for_programs())
		text_flush(&text);
	fflush(stdout);
	if (!is_for_programs())
		cli_print_error_text(&text);
}

static void print_rows(const struct count_rows *rows, struct calls_row *sorted,
		       struct calls_name *names)
{
	static const char *const one[] = { "function" };
	const char *titles[QUESTION_KEYS_MAX];
	const struct question_args *args = &trace_args.question;
	_cleanup_(distribution_free) struct distribution rest = { 0 };
	struct calls_name rest_names[CALLS_NAMES_MAX];
	char rest_text[48];
	size_t count = rows->rows.count;

	for (size_t i = 0; i < question.key_count; i++)
		titles[i] = question.keys[i].text;
	for (size_t i = 0; i < count; i++)
		fill_row(rows, &rows->rows.items[i], names + i * QUESTION_KEYS_MAX, &sorted[i]);
	size_t others = count && rows->rows.items[count - 1].is_other;
	calls_table_sort(sorted, count - others, (enum calls_sort)args->sort, rows->has_values);
	struct calls_table table = { .titles = question.key_count ? titles : one,
				     .title_count = question.key_count ? question.key_count : 1,
				     .names_first = true,
				     .columns = rows->is_time ? CALLS_HAS_SELF : 0,
				     .has_values = rows->has_values,
				     .is_time = rows->is_time,
				     .is_wide = trace_args.summary.is_wide,
				     .has_histograms = args->hist,
				     .is_linear = args->linear,
				     .rows = sorted,
				     .count = count };
	if (args->top && count > args->top) {
		sorted[args->top] = join_rest(rows, sorted, args->top, count, &rest, rest_names,
					      rest_text, sizeof(rest_text));
		table.count = args->top + 1;
	} else if (!args->top && !trace_args.summary.all_rows && !is_for_programs() &&
		   count > CALLS_ROWS_USUAL) {
		table.left = count - CALLS_ROWS_USUAL;
		table.count = CALLS_ROWS_USUAL;
	}
	print_table(&table);
}

void trace_question_print(const struct session *session, bool resets)
{
	_cleanup_(count_rows_free) struct count_rows rows = { 0 };
	_cleanup_error_ struct error *error = count_rows_read(session, resets, &rows);

	if (error) {
		cli_note("%s", error_text(error));
		return;
	}
	_cleanup_free_ struct calls_row *sorted = calloc(rows.rows.count + 1, sizeof(*sorted));
	_cleanup_free_ struct calls_name *names =
		calloc((rows.rows.count + 1) * QUESTION_KEYS_MAX, sizeof(*names));

	if (sorted && names)
		print_rows(&rows, sorted, names);
	else
		cli_note("out of memory");
}
