/*
 * cmd_top.c - dyntrace top TARGET: the calls of a process, live.
 */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/trace/trace_args.h"
#include "options/overhead_option.h"
#include "cli/trace/trace_begin.h"
#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "options/commands.h"
#include "options/table_text.h"
#include "top_callers.h"
#include "top_terminal.h"
#include "top_view.h"

#define ROWS_USUAL 20 /* without a screen */
#define SECONDS_USUAL 1.0

static struct {
	const char *pid;
	const char *batch_text;
	uint64_t batch; /* tables; 0: until the end */
	double each;
	bool no_exit;
} args = { .each = SECONDS_USUAL };

static struct top_view view;
static uint64_t next_ns; /* when the numbers are due */
static uint64_t printed; /* tables */
static bool has_screen, is_begun;

static const struct option_spec options[] = {
	{ 0, "function", "GLOB", "these functions (repeatable; default: all of the program)",
	  .list = &trace_args.what, .tag = TRACEPOINT_ENTRY },
	{ 'p', "pid", "TARGET", "the same as TARGET without -p", .string = &args.pid },
	{ 0, "by", "KEY[,KEY]",
	  "one row per value of KEY: a field or an expression over fields, ret, $tid, $pid, $comm, "
	  "$cpu, function, caller or backtrace[:FRAMES]",
	  .string = &trace_args.question.by },
	{ 0, "of", "VALUE", "with --by: what is summed up and distributed (default: duration)",
	  .string = &trace_args.question.of },
	{ 0, "filter", "EXPR", "only calls for which this is true", .string = &trace_args.filter },
	{ 0, "no-exit", NULL, "count entries only, which costs less than half: no times",
	  .flag = &args.no_exit },
	{ 0, "each", "SECONDS", "draw anew every so many seconds; also with a unit: 200ms (default: 1)",
	  .seconds = &args.each },
	{ 0, "batch", "N", "print N tables, and end", .string = &args.batch_text },
	{ 0, "sort", "COLUMN",
	  "calls, total, self, mean, p50, p99, max or name (default: total, of the last interval)",
	  .choice = &trace_args.question.sort, .choices = calls_sorts },
	{ 0, "top", "N", "without a screen: so many rows per table (default: 20)",
	  .string = &trace_args.question.top_text },
	{ 0, "keys", "N", "with --by: at most N different keys (default: 4096)",
	  .string = &trace_args.question.keys_text },
	{ 0, "children", NULL, "also the processes that the target has started so far",
	  .flag = &trace_args.children },
	OVERHEAD_OPTION(trace_args.overhead_text),
	{ 0, "no-follow-fork", NULL, "without forked children", .flag = &trace_args.no_follow_fork },
	{ 0 },
};

/* ---- the loop's hooks ------------------------------------------------------------------------ */

static unsigned rows_wanted(void)
{
	uint64_t top = trace_args.question.top;

	return top && top < UINT32_MAX ? (unsigned)top : ROWS_USUAL;
}

static bool print_table(void)
{
	_cleanup_(strbuf_free) struct strbuf lines = { 0 };

	top_view_print(&view, rows_wanted(), &lines);
	bool written = text_flush(&lines) && !fflush(stdout);
	printed++;
	return written && (!args.batch || printed < args.batch);
}

static bool draw(struct session *session, unsigned width, unsigned height)
{
	_cleanup_(strbuf_free) struct strbuf lines = { 0 };

	top_view_draw(&view, session, width, height, &lines);
	return top_terminal_draw(&lines);
}

static void begin(const struct trace_run *run)
{
	uint64_t begun = session_begun_ns(run->session);

	is_begun = true;
	view.begun_ns = begun ? begun : now_ns();
	next_ns = view.begun_ns + (uint64_t)(args.each * 1e9);
	has_screen = !args.batch && top_terminal_is_usable();
	view.rows.functions = session_tracepoint_count(run->session);
	if (has_screen)
		top_terminal_begin();
}

/* struct trace_screen: again and again while the session runs. False: enough. */
static bool look(struct trace_run *run)
{
	unsigned width = 0, height = 0;
	bool is_first = !is_begun, is_changed = false;
	int key;

	if (!is_begun)
		begin(run);
	while (has_screen && (key = top_terminal_key()) != TOP_NO_KEY) {
		is_changed = true;
		top_terminal_size(&width, &height);
		if (!top_view_key(&view, run->session, key, height))
			return false;
	}
	bool is_due = now_ns() >= next_ns;
	if (is_due) {
		while (next_ns <= now_ns())
			next_ns += (uint64_t)(args.each * 1e9);
		if (!view.is_paused)
			error_free(top_rows_read(run->session, view.by_key, &view.rows));
	}
	if (!has_screen)
		return !is_due || print_table();
	if (top_terminal_size(&width, &height) || is_first || is_changed || is_due)
		return draw(run->session, width, height);
	return true;
}

/* struct trace_screen: before the target is left. */
static void end(struct trace_run *run)
{
	if (!is_begun)
		return;
	if (!has_screen && (!args.batch || printed < args.batch) && !view.is_paused) {
		/* the last part of an interval */
		error_free(top_rows_read(run->session, view.by_key, &view.rows));
		print_table();
	}
	top_terminal_end();
	top_callers_end(&view, run->session);
}

static const struct trace_screen screen = { look, end };

/* ---- the command ----------------------------------------------------------------------------- */

static struct error *read_batch(void)
{
	char *rest;

	if (!args.batch_text)
		return NULL;
	args.batch = strtoull(args.batch_text, &rest, 10);
	if (*rest || rest == args.batch_text || !args.batch || args.batch_text[0] == '-')
		return error_new(ERROR_USAGE, "--batch: '%s' is not a number of tables",
				 args.batch_text);
	return NULL;
}

/* Top is a trace with other words. */
static struct error *set_trace(const struct words *words)
{
	struct option_value all = { .option = &options[0], .text = "*" };
	const char *named = args.pid ? args.pid : words->count ? words->items[0] : NULL;

	if (words->count > (args.pid ? 0 : 1))
		return error_new(ERROR_USAGE, "one TARGET, not '%s'", words->items[words->count - 1]);
	if (!named && !(words->rest && words->rest[0]))
		return error_new(ERROR_USAGE, "give TARGET: a pid or a name (or -- COMMAND)");
	if (trace_args.question.of && !trace_args.question.by)
		return error_new(ERROR_USAGE, "--of: needs --by KEY");
	if (named) {
		struct option_value target = { .text = named };

		if (!vec_push(&trace_args.targets, target))
			return error_new(ERROR_FAILED, "out of memory");
	}
	if (!trace_args.what.count && !vec_push(&trace_args.what, all))
		return error_new(ERROR_FAILED, "out of memory");
	trace_args.tracer_text = "count";
	trace_args.exit = !args.no_exit;
	trace_args.quiet = true;
	view.title = named ? named : words->rest[0];
	if (!named && strrchr(view.title, '/'))
		view.title = strrchr(view.title, '/') + 1;
	view.by_key = trace_args.question.by;
	view.key_title = view.by_key ? trace_args.question.by : "function";
	view.sort = trace_args.question.sort;
	if (args.no_exit && view.sort == CALLS_BY_DEFAULT)
		view.sort = CALLS_BY_COUNT;
	view.has_blocks = setlocale(LC_CTYPE, "") && !strcmp(nl_langinfo(CODESET), "UTF-8");
	return NULL;
}

static struct error *run(const struct words *words, int *ret_status)
{
	struct error *error = read_batch();
	struct words none = { .rest = words->rest };

	if (!error)
		error = set_trace(words);
	if (error)
		return error;
	error = trace_run_with(&none, &screen, ret_status);
	top_terminal_end();
	top_view_free(&view);
	return error;
}

const struct command command_top = {
	.name = "top",
	.summary = "watch the calls of a process, live",
	.usage = "[OPTIONS] TARGET\n"
		 "[OPTIONS] -- COMMAND ARGS...",
	.details =
		"Counts calls and their durations in the target and draws a table each second: hits per second,\n"
		"shares of total and own time, mean, percentiles, and the last intervals. Keys: q quits, h lists\n"
		"all others. Without a terminal that can be drawn on, as in a pipe, a table per interval is printed.\n"
		"The target is left as it was.",
	.example = "dyntrace top redis-server\n"
		   "dyntrace top app --function 'http_*' --each 500ms\n"
		   "dyntrace top app --function open@libc.so.6 --by file\n"
		   "dyntrace top 1234 --batch 1 --top 5",
	.options = options,
	.runs_command = true,
	.run = run,
};
