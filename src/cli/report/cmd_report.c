/*
 * cmd_report.c - dyntrace report TRACE [FUNCTION]: numbers of a recorded trace.
 */
#include <errno.h>
#include <stdlib.h>

#include "cli/view/view_newest.h"
#include "cli/view/view_pager.h"
#include "control/base/cleanup.h"
#include "options/commands.h"
#include "options/question_options.h"
#include "page.h"
#include "report.h"
#include "report_by.h"

static struct {
	struct question_args question;
	bool tree, callers, json, csv, wide, all_rows, no_pager;
	const char *diff, *html;
} args;

static const struct option_spec options[] = {
	OPTION_GROUP("What to show (without any: a table of functions)"),
	{ 0, "tree", NULL, "call paths, with each one's share of the time", .flag = &args.tree },
	{ 0, "callers", NULL, "functions by self time, each with the calls that lead to it",
	  .flag = &args.callers },
	{ 0, "diff", "OTHER", "compare with this trace, which is the newer one",
	  .string = &args.diff },
	{ 0, "html", "FILE", "write a page for a browser: table, histograms, flame graph, timeline",
	  .string = &args.html },
	QUESTION_OPTIONS(args.question),
	OPTION_GROUP("How to show it"),
	{ 0, "all-rows", NULL, "all rows, also of functions that weren't called and of paths below "
			       "0.1%", .flag = &args.all_rows },
	{ 0, "wide", NULL, "also p50, p90 and calls without an exit", .flag = &args.wide },
	{ 0, "json", NULL, "JSON, with times in ns", .flag = &args.json },
	{ 0, "no-pager", NULL,
	  "on a terminal, don't show the output with $DYNTRACE_PAGER, $PAGER or less",
	  .flag = &args.no_pager },
	{ 0, "csv", NULL, "comma-separated values, with times in ns", .flag = &args.csv },
	{ 0 },
};

/* The words of the command, for the child. */
struct request {
	const char *path, *function;
	struct report_options options;
	struct question question;
};

static void free_request(struct request *request)
{
	question_free(&request->question);
}

static struct error *read_one(const struct own_traces *traces, struct view_reader *reader,
			      const char *path, struct report *report)
{
	struct error *error = report_read(report, traces, reader);

	if (!error && report->is_damaged)
		error = view_reader_damaged(reader, path, "stumbled");
	return error;
}

/* In the child: reads both traces, and prints. */
static struct error *print_diff(struct view_reader *reader, const struct request *request,
				struct strbuf *text)
{
	_cleanup_(view_own_close) struct own_traces before = { 0 }, after = { 0 };
	_cleanup_(report_free) struct report old = { 0 }, new = { 0 };
	struct error *error = view_own_open(request->path, args.diff, reader, &before, &after);

	if (!error)
		error = read_one(&before, reader, request->path, &old);
	if (!error)
		error = read_one(&after, reader, args.diff, &new);
	if (!error)
		report_diff(&old, &new, &request->options, text);
	return error;
}

static void print_one(const struct report *report, const struct request *request,
		      struct strbuf *text)
{
	if (report->by)
		report_by_print(report->by, report, &request->options, text);
	else if (args.tree)
		report_tree(report, &request->options, text);
	else if (args.callers)
		report_callers(report, &request->options, text);
	else if (request->function && request->options.form == FORM_TEXT)
		report_function(report, &request->options, text);
	else
		report_table(report, &request->options, text);
}

static struct error *print_report(struct view_reader *reader, const struct request *request,
				  struct strbuf *text)
{
	_cleanup_(view_own_close) struct own_traces traces = { 0 };
	struct viewer viewer = { .reader = reader,
				 .named_only = true,
				 .line.colours = { "", "", "", "", "" } };
	_cleanup_(report_free) struct report report = {
		.wants_tree = args.tree || args.callers,
		.wanted = request->function,
		.viewer = &viewer,
	};
	struct error *error = view_own_open(request->path, NULL, reader, &traces, NULL);

	if (!error && request->question.key_count &&
	    !(report.by = report_by_create(&request->question, args.question.keys)))
		error = error_new(ERROR_FAILED, "out of memory");
	if (!error)
		error = read_one(&traces, reader, request->path, &report);
	if (!error && report.by)
		error = report_by_error(report.by);
	/* of a damaged trace, what could be read */
	if (!error || report.is_damaged)
		print_one(&report, request, text);
	report_by_free(report.by);
	view_own_end(&viewer);
	return error;
}

static struct error *read_and_print(struct view_reader *reader, void *context)
{
	const struct request *request = context;
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	struct error *error = args.diff ? print_diff(reader, request, &text) :
					  print_report(reader, request, &text);
	int failed = view_reader_flush(reader, &text);

	if (!error && failed && failed != EPIPE)
		error = error_errno(failed, "cannot write the report");
	return error;
}

/* Refuses questions that make no sense together. */
static struct error *check_question(const struct question *question)
{
	if (!question->key_count && question->value.text)
		return error_new(ERROR_USAGE, "--of: needs --by KEY (--by function: one row each)");
	if (question->key_count && (args.tree || args.callers || args.diff))
		return error_new(ERROR_USAGE, "--by: not with --tree, --callers and --diff");
	return NULL;
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_free_ char *newest = NULL;
	_cleanup_(free_request) struct request request = { 0 };
	struct error *error = question_options_read(&args.question, &request.question);

	if (!error)
		error = view_newest_choose(words, 2, &newest, &request.path);
	if (error)
		return error;
	error = check_question(&request.question);
	if (error)
		return error;
	if (args.tree + args.callers + (args.diff != NULL) > 1)
		return error_new(ERROR_USAGE, "give one of --tree, --callers and --diff");
	if (args.html && (args.tree || args.callers || args.diff || args.json || args.csv ||
			  words->count == 2))
		return error_new(ERROR_USAGE, "--html: the page has all of it (give --html alone)");
	if (args.html)
		return page_make(request.path, args.html);
	if ((args.tree || args.callers) && (args.json || args.csv))
		return error_new(ERROR_USAGE, "--json and --csv are for tables of functions");
	request.options = (struct report_options){
		.sort = (enum calls_sort)args.question.sort,
		.form = args.json ? FORM_JSON : args.csv ? FORM_CSV : FORM_TEXT,
		.wide = args.wide,
		.all_rows = args.all_rows,
		.hist = args.question.hist,
		.linear = args.question.linear,
		.top = args.question.top,
	};
	request.function = words->count == 2 ? words->items[1] : NULL;
	request.options.path = request.path;
	struct view_reader_limits limits = view_reader_default_limits;
	limits.has_progress = true;
	if (!args.no_pager && request.options.form == FORM_TEXT)
		view_pager_begin();
	error = view_reader_run(request.path, &limits, read_and_print, &request);
	view_pager_end();
	if (error && error_kind(error) == ERROR_REFUSED)
		return error_wrap(error, "cannot report: this is not a whole trace of dyntrace's "
					 "('dyntrace view' reads more kinds of traces)");
	return error;
}

const struct command command_report = {
	.name = "report",
	.summary = "show where the time of a recorded trace went",
	.usage = "[OPTIONS] [TRACE [FUNCTION]]",
	.details =
		"Without options: a table of functions. Total is the time during which a call of the function\n"
		"was on the thread's stack, self is without the traced functions that it called; mean, p50, p90\n"
		"and p99 are per call. Durations need a trace with exits (trace -e). With FUNCTION: how its\n"
		"durations are distributed, its callers and callees, and its slowest calls with arguments.\n"
		"\n"
		"With --by: one row per key, which is taken when a call begins (ret: when it ends). Total is the\n"
		"time during which a call with that key was on the thread's stack. Keys beyond --keys share the\n"
		"row (other keys: N), so sums are exact; (unknown) are calls whose entry isn't in the trace.\n"
		"caller is the function of a recorded backtrace (-t backtrace), or the traced one around the call.\n"
		"\n"
		"Calls that lost events cut, calls that ended by an exception, and calls that hadn't ended have\n"
		"no duration in any number; lines below the table say how many. --html writes one page without\n"
		"need of a network, which 'dyntrace open' shows; FILE - is standard output. Without TRACE: the\n"
		"newest trace in the current directory.",
	.example = "dyntrace report redis.dyntrace\n"
		   "dyntrace report redis.dyntrace processCommand\n"
		   "dyntrace report --tree redis.dyntrace\n"
		   "dyntrace report app.dyntrace malloc --by size --of size --top 5\n"
		   "dyntrace report app.dyntrace --by '$tid,function' --sort p99\n"
		   "dyntrace report --html redis.html redis.dyntrace\n"
		   "dyntrace report before.dyntrace --diff after.dyntrace",
	.options = options,
	.run = run,
};
