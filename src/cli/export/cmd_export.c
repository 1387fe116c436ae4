/*
 * cmd_export.c - dyntrace export TRACE --FORMAT FILE: a trace for other programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "export.h"
#include "options/commands.h"

typedef struct error *format_fn(struct exporting *exporting);

static const char *files[5]; /* as the user gave them */

/* In the order of `files`. */
static format_fn *const formats[] = { export_perfetto, export_flamegraph, export_speedscope,
				     export_folded, export_csv };
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static const struct option_spec options[] = {
	{ 0, "perfetto", "FILE", "Perfetto's format, for ui.perfetto.dev: slices per thread",
	  .string = &files[0] },
	{ 0, "flamegraph", "FILE", "a flame graph: an SVG with zoom and search, for any browser",
	  .string = &files[1] },
	{ 0, "speedscope", "FILE", "speedscope's format, for speedscope.app: a profile per thread",
	  .string = &files[2] },
	{ 0, "folded", "FILE", "folded stacks with self time in ns, or hits by backtrace, for other flame graphs",
	  .string = &files[3] },
	{ 0, "csv", "FILE", "comma-separated values, one event per line", .string = &files[4] },
	{ 0 },
};

struct request {
	const char *path;
	format_fn *format;
};

bool export_flush(struct exporting *exporting, bool always)
{
	if (!exporting->write_error && (always || exporting->text.length >= EXPORT_KEPT_MAX))
		exporting->write_error = view_reader_flush(exporting->reader, &exporting->text);
	return !exporting->write_error;
}

/* In the child. */
static struct error *write_trace(struct view_reader *reader, void *context)
{
	const struct request *request = context;
	_cleanup_(view_own_close) struct own_traces traces = { 0 };
	struct exporting exporting = { .reader = reader, .traces = &traces };
	struct error *error = view_own_open(request->path, NULL, reader, &traces, NULL);

	if (error)
		return error;
	error = request->format(&exporting);
	export_flush(&exporting, true);
	strbuf_free(&exporting.text);
	if (!error && exporting.is_damaged)
		error = view_reader_damaged(reader, request->path, "stumbled");
	if (!error && exporting.write_error && exporting.write_error != EPIPE)
		error = error_errno(exporting.write_error, "cannot write the file");
	return error;
}

/* In a child. Can the trace be read at all? FILE, which may be all that is left of another trace,
 * is emptied only then. */
static struct error *try_trace(struct view_reader *reader, void *context)
{
	const struct request *request = context;
	_cleanup_(view_own_close) struct own_traces traces = { 0 };

	return view_own_open(request->path, NULL, reader, &traces, NULL);
}

/* The child writes to standard output: it becomes the file. */
static struct error *open_file(const char *path)
{
	if (!strcmp(path, "-"))
		return NULL;
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		return error_errno(errno, "cannot write '%s'", path);
	return NULL;
}

static struct error *run(const struct words *words, int *ret_status)
{
	struct request request = { 0 };
	const char *file = NULL;

	for (size_t i = 0; i < FORMATS; i++) {
		if (files[i] && file)
			return error_new(ERROR_USAGE, "give one format");
		if (files[i]) {
			file = files[i];
			request.format = formats[i];
		}
	}
	if (!file)
		return error_new(ERROR_USAGE, "give a format: --perfetto, --flamegraph, --speedscope, "
					      "--folded or --csv");
	if (words->count != 1)
		return error_new(ERROR_USAGE, "give one TRACE, a trace's directory");
	request.path = words->items[0];
	if (!strcmp(file, "-") && isatty(STDOUT_FILENO) && request.format == export_perfetto)
		return error_new(ERROR_USAGE, "--perfetto: not to a terminal (give a FILE)");
	struct error *error = view_reader_run(request.path, &view_reader_default_limits, try_trace,
					      &request);
	if (!error)
		error = open_file(file);
	struct view_reader_limits limits = view_reader_default_limits;
	limits.has_progress = true;
	if (!error)
		error = view_reader_run(request.path, &limits, write_trace, &request);
	if (error && error_kind(error) == ERROR_REFUSED)
		return error_wrap(error, "cannot export: this is not a whole trace of dyntrace's");
	return error;
}

const struct command command_export = {
	.name = "export",
	.summary = "write a recorded trace in another program's format",
	.usage = "TRACE (--perfetto | --flamegraph | --speedscope | --folded | --csv) FILE",
	.details =
		"FILE - is standard output. A call is a slice from its entry to its exit; calls that hadn't\n"
		"ended, or that a loss of events cut, end there in Perfetto's format, and a loss is a mark.\n"
		"Flame graphs and folded stacks have the time that call paths took; folded stacks, and the self\n"
		"time of a flame graph, are without the traced functions that a path called. They and\n"
		"speedscope's format leave out calls without a duration: calls that a loss cut, that hadn't\n"
		"ended, or that ended by an exception, and calls whose entry isn't in the trace. Of a trace\n"
		"without exits, folded stacks have the hits per backtrace (trace -t backtrace).",
	.example = "dyntrace export redis.dyntrace --perfetto redis.pftrace\n"
		   "dyntrace export redis.dyntrace --flamegraph redis.svg\n"
		   "dyntrace export redis.dyntrace --folded - | sort",
	.options = options,
	.run = run,
};
