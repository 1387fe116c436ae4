/*
 * cmd_view.c - dyntrace view TRACE: print a trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/lines/frames.h"
#include "options/commands.h"
#include "view.h"
#include "view_filter.h"
#include "view_follow.h"
#include "view_newest.h"
#include "view_own.h"
#include "view_pager.h"
#include "view_select.h"

static struct {
	bool json, tree, lines, all_arguments, no_pager, follow;
	bool is_terminal, has_colour; /* stdout's, before a pager is there */
	const char *filter;
	struct view_select select;
} args;

static const struct option_spec options[] = {
	{ 0, "filter", "EXPR",
	  "print only events for which this is true: 'ret < 0 && path == \"/etc/*\"'",
	  .string = &args.filter },
	{ 0, "tid", "N", "only this thread", .string = &args.select.tid },
	{ 0, "pid", "N", "only this process", .string = &args.select.pid },
	{ 0, "from", "TIME", "from this time on: 09:03:30.118, or +1.5 and +200ms after the begin",
	  .string = &args.select.from },
	{ 0, "to", "TIME", "up to this time", .string = &args.select.to },
	{ 0, "around", "TIME", "50 lines, from 0.1 ms before this time on",
	  .string = &args.select.around },
	{ 'n', NULL, "N", "only the first N lines", .string = &args.select.count },
	{ 'f', "follow", NULL, "go on with what is being recorded, until that ends",
	  .flag = &args.follow },
	{ 0, "tree", NULL, "calls as a tree (default on a terminal, for a trace with exits)",
	  .flag = &args.tree },
	{ 0, "lines", NULL, "one event per line, also on a terminal", .flag = &args.lines },
	{ 0, "args", NULL, "in a tree, also arguments without a name", .flag = &args.all_arguments },
	{ 0, "json", NULL, "one JSON object per line instead of text", .flag = &args.json },
	{ 0, "no-pager", NULL,
	  "on a terminal, don't show the output with $DYNTRACE_PAGER, $PAGER or less",
	  .flag = &args.no_pager },
	{ 0 },
};

static const struct line_colours no_colours = { "", "", "", "", "" };
static const struct line_colours colours = { "\033[2m", "\033[1;32m", "\033[36m", "\033[1;31m",
					"\033[0m" };

typedef struct error *run_fn(const char *path, struct viewer *viewer);

/* In the reader. */
static struct error *print_trace(struct view_reader *reader, const char *path,
				 const struct filter_source *source, run_fn *run_reader)
{
	struct viewer viewer = { .reader = reader,
				 .line.json = args.json,
				 .line.colours = no_colours,
				 .select = &args.select,
				 .tree = args.tree			       ? TREE_ALWAYS :
					 args.lines || args.json || args.filter ||
							 !args.is_terminal ? TREE_NEVER :
										  TREE_IF_EXITS,
				 .all_arguments = args.all_arguments };

	if (args.has_colour && !args.json)
		viewer.line.colours = colours;
	if (args.filter && !(viewer.filter = view_filter_create(args.filter, source)))
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = run_reader(path, &viewer);
	int flushed = view_reader_flush(reader, &viewer.line.text);
	if (!viewer.write_error)
		viewer.write_error = flushed;
	strbuf_free(&viewer.line.text);
	if (!error)
		error = viewer.select_error;
	if (!error && viewer.filter) {
		error = view_filter_error(viewer.filter);
		if (error)
			error = error_wrap(error, "--filter");
	}
	view_filter_destroy(viewer.filter);
	frames_free(viewer.line.frames);
	if (!error && viewer.write_error && viewer.write_error != EPIPE)
		error = error_errno(viewer.write_error, "cannot write the events");
	return error;
}

static struct error *print_own(struct view_reader *reader, void *path)
{
	return print_trace(reader, path, &view_filter_own, view_own_run);
}

static struct error *print_followed(const char *path, struct viewer *viewer)
{
	view_filter_destroy(viewer->filter); /* each round has its own */
	viewer->filter = NULL;
	return view_follow_run(path, args.filter, viewer);
}

static struct error *follow_own(struct view_reader *reader, void *path)
{
	return print_trace(reader, path, &view_filter_own, print_followed);
}

static struct error *follow_trace(const char *path)
{
	_cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct view_reader_limits limits = view_reader_default_limits;

	if (directory < 0)
		return error_errno(errno, "cannot open the trace '%s'", path);
	if (faccessat(directory, "metadata", R_OK, 0))
		return error_errno(errno, "-f: '%s' is not one trace", path);
	limits.followed = directory;
	return view_reader_run(path, &limits, follow_own, (void *)path);
}

static struct error *print_other(struct view_reader *reader, void *path)
{
	return print_trace(reader, path, &view_filter_bt, view_graph_run);
}

static struct error *read_trace(const char *path)
{
	struct view_reader_limits limits = view_reader_default_limits;
	limits.has_progress = !args.is_terminal; /* lines that come are progress */
	struct error *error = view_reader_run(path, &limits, print_own, (void *)path);
	if (!error || error_kind(error) != ERROR_REFUSED)
		return error;
	/* not ours, or damaged: libbabeltrace2 knows more kinds of traces */
	if (args.tree)
		return error_wrap(error, "--tree: this is not a whole trace of dyntrace's");
	error_free(error);
	return view_reader_run(path, &view_reader_default_limits, print_other, (void *)path);
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_free_ char *newest = NULL;
	const char *path;
	struct error *error = view_newest_choose(words, 1, &newest, &path);

	if (!error)
		error = view_select_read(&args.select);
	if (error)
		return error;
	if (args.tree && (args.json || args.lines))
		return error_new(ERROR_USAGE, "give one of --tree, --lines and --json");
	args.is_terminal = isatty(STDOUT_FILENO);
	args.has_colour = cli_has_colour(STDOUT_FILENO);
	if (args.follow)
		return follow_trace(path);
	if (!args.no_pager)
		view_pager_begin();
	error = read_trace(path);
	view_pager_end();
	return error;
}

const struct command command_view = {
	.name = "view",
	.summary = "print a trace, one event per line",
	.usage = "[OPTIONS] [TRACE]",
	.details =
		"A line has the local time, the time since the previous event, process and thread, the\n"
		"event's name and its fields. Lost events are a line of their own at the place where they are\n"
		"missing. EXPR is as in trace, over fields, $name, $tid and $pid; events without such a field\n"
		"are left out. TRACE is the directory of a CTF trace, or a directory with several below it;\n"
		"without one, the newest trace in the current directory.",
	.example = "dyntrace view --tree TRACE | less\n"
		   "dyntrace view TRACE --filter 'duration > 1000000 && $name == \"read*\"'\n"
		   "dyntrace view ls-20260102-091233.dyntrace | less\n"
		   "dyntrace view --json TRACE | jq 'select(.name == \"main_entry\")'",
	.options = options,
	.run = run,
};
