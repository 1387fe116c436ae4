#include "trace_question.h"

#include <stdio.h>

#include "control/base/cleanup.h"
#include "control/session/follow_exec/session_rows.h"
#include "options/commands.h"
#include "options/count_table.h"
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
	if (trace_args.reset && trace_args.each <= 0)
		return error_new(ERROR_USAGE, "--reset: needs --each SECONDS");
	if (trace_args.summary.is_json && trace_args.csv)
		return error_new(ERROR_USAGE, "--json and --csv: choose one");
	return NULL;
}

/* ---- printing -------------------------------------------------------------------------------- */

void trace_question_print(struct session *session, bool resets)
{
	bool is_json = trace_args.summary.is_json, is_text = !is_json && !trace_args.csv;
	struct count_table how = { .question = &question,
				   .args = &trace_args.question,
				   .form = is_json ? COUNT_JSON : is_text ? COUNT_TEXT : COUNT_CSV,
				   .is_wide = trace_args.summary.is_wide,
				   .all_rows = trace_args.summary.all_rows };
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	_cleanup_(count_rows_free) struct count_rows rows = { 0 };
	_cleanup_error_ struct error *error = session_rows(session, resets, &rows);

	if (!error && !count_table_add(&how, &rows, &text))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		cli_note("%s", error_text(error));
		return;
	}
	if (is_json)
		text_add(&text, "\n");
	if (!is_text)
		text_flush(&text);
	fflush(stdout);
	if (is_text)
		cli_print_error_text(&text);
}
