/*
 * trace.c - dyntrace trace: the quick way, with no daemon.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <wordexp.h>

#include "../client/client.h"
#include "../control/base/cleanup.h"
#include "../control/inject/launch.h"
#include "../control/session/session.h"
#include "../control/tracer/tracer.h"
#include "../shared/program.h"
#include "commands.h"
#include "explain.h"
#include "leftovers.h"
#include "print.h"
#include "summary.h"

#define STEP_MS 50
#define PRINT_MS 50
#define LOG_STEP_MS 10
#define CONTEXTS_MAX 64
#define STOP_TIMEOUT_MS 2000

static struct {
	const char *command;
	const char *target;
	const char *output;
	struct option_values what;
	struct option_values contexts;
	const char *context_types[CONTEXTS_MAX];
	const char *filter;
	uint64_t string_max;
	uint64_t every, first;
	const char *rate_text;
	uint64_t rate;
	uint64_t buffer_size;
	double seconds;
	int mode; /* enum session_mode */
	bool print;
	bool no_follow_fork;
	bool follow_exec;
	bool exit;
	bool wait;
	bool all_rows, quiet;
	const char *tracer_text;
	char *tracer_name;
	const char *tracer_argument;
	char *function; /* of the tracer call */
	const struct tracer *tracer;
	const char *name;
	const char *explain;
} args = { .buffer_size = DT_POOL_DEFAULT };

static const char *const modes[] = { [SESSION_DISCARD] = "discard", [SESSION_OVERWRITE] = "overwrite",
				     [SESSION_BLOCK] = "block", NULL };

static const struct option_spec trace_options[] = {
	OPTION_GROUP("Which program"),
	{ 'c', NULL, "COMMAND", "start this command, traced from its first instruction",
	  .string = &args.command },
	{ 'p', NULL, "TARGET", "trace this process: a pid, or a name", .string = &args.target },
	{ 0, "no-follow-fork", NULL, "don't trace processes that the target forks",
	  .flag = &args.no_follow_fork },
	{ 0, "follow-exec", NULL, "trace the programs that it and its children begin (execve), too",
	  .flag = &args.follow_exec },

	OPTION_GROUP("What to record"),
	{ 0, "function", "LOC", "a function's entry, with its arguments (repeatable)", .list = &args.what,
	  .tag = TRACEPOINT_ENTRY },
	{ 'e', "exit", NULL, "the functions' exits too, with return value and duration", .flag = &args.exit },
	{ 0, "probe", "LOC", "that instruction, of which only the time is recorded (repeatable)",
	  .list = &args.what, .tag = TRACEPOINT_BARE },
	{ 0, "marker", "PROVIDER:NAME", "a static marker (SDT), with its arguments; both words may be globs (repeatable)",
	  .list = &args.what, .tag = TRACEPOINT_BARE },
	{ 0, "wait", NULL, "what isn't there yet is traced when its library is loaded", .flag = &args.wait },
	{ 0, "explain", "LOC", "trace nothing; show how a probe there would be placed and its code, or why it can't\n"
	  "be", .string = &args.explain },

	OPTION_GROUP("Values and filters"),
	{ 't', "context", "TYPE", "record this with every event (repeatable): regs, reg:rax, tid, pid, cpu, comm,\n"
	  "backtrace[:FRAMES], var:NAME (a variable or argument, with members: var:req->path),\n"
	  "VARTYPE:NAME:ADDR (memory, as int, uint64_t, double, string, ...)", .list = &args.contexts },
	{ 0, "string-max", "SIZE", "bytes of a string that are recorded (default: 256)",
	  .size = &args.string_max },
	{ 0, "filter", "EXPR", "record only what this is true for: 'size > 4096 && path != NULL', '$rdi > 4096'",
	  .string = &args.filter },
	{ 0, "every", "N", "record the first hit of each place, and then every Nth", .size = &args.every },
	{ 0, "first", "N", "record the first N hits of each place", .size = &args.first },
	{ 0, "rate", "N/s", "record at most N hits a second of each place", .string = &args.rate_text },

	OPTION_GROUP("How"),
	{ 'o', "output", "DIR", "where the trace goes (default: ./NAME-DATE.dyntrace)",
	  .string = &args.output },
	{ 0, "tracer", "TRACER", "what a hit leads to: ctf (events, the default); log[:FILE] (a line of\n"
	  "text, to the program's own standard output or appended to FILE); count (only counted, in the target: hits, and with\n"
	  "-e how long calls took); lttng (events of LTTng-UST: dyntrace_lttng:tracepoint_hit, function_entry and\n"
	  "function_exit, or with -n NAME dyntrace:NAME, NAME_entry and NAME_exit with all values);\n"
	  "call:LIBRARY:FUNCTION (a function of yours, in the target)", .string = &args.tracer_text },
	{ 'n', "name", "NAME", "of the tracepoint (default: made from LOC)", .string = &args.name },
	{ 0, "for", "SECONDS", "stop after that time", .seconds = &args.seconds },
	{ 0, "print", NULL, "every event as a line of text, as it comes", .flag = &args.print },
	{ 0, "buffer-size", "SIZE", "memory for events not written yet (default: 64M)",
	  .size = &args.buffer_size },
	{ 0, "mode", "MODE", "when that is full: discard new events and count them, overwrite the oldest (the last\n"
	  "events are written at the end, and at each SIGUSR1 to DIR.snapshot-N), or block the target\n"
	  "until there is room, for up to 10 s (default: discard)", .choice = &args.mode, .choices = modes },
	{ 0, "all-rows", NULL, "every tracepoint in the table at the end, not just the 40 with most hits",
	  .flag = &args.all_rows },
	{ 'q', "quiet", NULL, "no summary at the end", .flag = &args.quiet },
	{ 0 },
};

/* One run of the command. */
struct run {
	struct launch *launch; /* NULL: a process that was there before */
	struct proc *opened; /* owned; NULL with a launch */
	struct proc *proc; /* of either */
	struct session *session;
	char *output;
	struct printer *printer; /* NULL: without --print */
	unsigned snapshots; /* written */
	sig_atomic_t snapshots_asked; /* of snapshots_wanted, what has been seen to */
	int status; /* of the launched command, as waitpid gives it */
	bool ended;
};

static volatile sig_atomic_t signals_seen;
static volatile sig_atomic_t last_signal;
static volatile sig_atomic_t snapshots_wanted;

static void on_signal(int number)
{
	signals_seen = signals_seen + 1;
	last_signal = number;
}

static void on_snapshot(int number)
{
	(void)number;
	snapshots_wanted = snapshots_wanted + 1;
}

/* Without SA_RESTART: a signal ends the wait for events. */
static void catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction snapshot = { .sa_handler = on_snapshot };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction old;

		if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
	sigaction(SIGUSR1, &snapshot, NULL); /* in every mode: a dyntrace that dies of it leaves its probes behind */
	if (args.print || args.tracer->kind == TRACER_LOG)
		signal(SIGPIPE, SIG_IGN);
}

static void run_free(struct run *run)
{
	session_destroy(run->session);
	printer_destroy(run->printer);
	launch_free(run->launch);
	proc_close(run->opened);
	free(run->output);
}

/* ---- the target ----------------------------------------------------------------------------- */

static bool has_function(void)
{
	for (size_t i = 0; i < args.what.count; i++) {
		if (args.what.items[i].option->tag == TRACEPOINT_ENTRY)
			return true;
	}
	return false;
}

/* "100/s" */
static struct error *parse_rate(void)
{
	char *end;

	if (!args.rate_text)
		return NULL;
	errno = 0;
	args.rate = strtoull(args.rate_text, &end, 10);
	if (errno || end == args.rate_text || (strcmp(end, "/s") != 0 && *end) || args.rate == 0)
		return error_new(ERROR_USAGE, "--rate: '%s' isn't a number a second, such as 100/s",
				 args.rate_text);
	return NULL;
}

static struct error *check_markers(void)
{
	for (size_t i = 0; i < args.what.count; i++) {
		const struct option_value *value = &args.what.items[i];

		if (strcmp(value->option->name, "marker") == 0 && !strchr(value->text, ':'))
			return error_new(ERROR_USAGE, "--marker: '%s' isn't PROVIDER:NAME (quote globs: 'python:*')",
					 value->text);
	}
	return NULL;
}

/* Callers are in libraries, too: their tables must be there. */
static bool needs_libraries(void)
{
	for (size_t i = 0; i < args.contexts.count; i++) {
		if (!strncmp(args.contexts.items[i].text, "backtrace", strlen("backtrace")))
			return true;
	}
	return false;
}

static struct error *parse_tracer(void)
{
	struct error *error = args.tracer_text ?
				      tracer_split(args.tracer_text, &args.tracer_name, &args.tracer_argument) :
				      NULL;

	if (!error)
		error = tracer_find(args.tracer_name, &args.tracer);
	if (!error)
		error = tracer_check(args.tracer, args.tracer_argument);
	if (!error && args.tracer->kind == TRACER_CALL)
		error = client_absolute_function(args.tracer_argument, &args.function);
	if (args.function)
		args.tracer_argument = args.function;
	return error_wrap(error, "--tracer");
}

static struct error *check_usage(const struct words *words)
{
	int targets = !!args.command + !!args.target + !!words->rest;

	if (words->count)
		return error_new(ERROR_USAGE, "unexpected word '%s' (a command goes behind '--')",
				 words->items[0]);
	if (targets != 1)
		return error_new(ERROR_USAGE, "%s: give one of -c COMMAND, -p TARGET and -- COMMAND",
				 targets ? "more than one target" : "nothing to trace");
	if (words->rest && !words->rest[0])
		return error_new(ERROR_USAGE, "no command behind '--'");
	if (!args.what.count && !args.explain)
		return error_new(ERROR_USAGE, "nothing to record: give --function LOC, --probe LOC or --marker PROVIDER:NAME");
	if (args.exit && !has_function())
		return error_new(ERROR_USAGE, "-e: give the function whose exit is meant, with --function LOC");
	if (args.follow_exec && needs_libraries())
		return error_new(ERROR_USAGE, "-t backtrace: not with --follow-exec: callers would be named by the wrong "
					      "program");
	if (args.contexts.count > CONTEXTS_MAX)
		return error_new(ERROR_USAGE, "-t: at most %d contexts", CONTEXTS_MAX);
	if (args.string_max > DT_STRING_MAX || (args.string_max && args.string_max < 8))
		return error_new(ERROR_USAGE, "--string-max: from 8 to %u", DT_STRING_MAX);
	if (args.follow_exec && args.tracer->kind != TRACER_CTF)
		return error_new(ERROR_USAGE, "--follow-exec: not with tracer '%s', only with ctf", args.tracer->name);
	if (args.output && !args.tracer->has_trace)
		return error_new(ERROR_USAGE, "tracer '%s' writes no trace: leave out -o", args.tracer->name);
	if (args.buffer_size < DT_POOL_MIN || args.buffer_size > DT_POOL_MAX)
		return error_new(ERROR_USAGE, "--buffer-size: from 1M to 4095M");
	return check_markers();
}

/* -c "COMMAND ARGS": words as a shell makes them, without its commands. */
static struct error *launch_line(const char *line, struct launch **ret_launch)
{
	wordexp_t words;
	struct error *error;

	switch (wordexp(line, &words, WRDE_NOCMD)) {
	case 0:
		break;
	case WRDE_NOSPACE:
		return error_new(ERROR_FAILED, "out of memory");
	case WRDE_SYNTAX:
		return error_new(ERROR_USAGE, "-c: unbalanced quotes in '%s'", line);
	default:
		return error_new(ERROR_USAGE,
				 "-c takes one command; for '|', ';', '>', '$(' and the like: -- sh -c '...'");
	}
	if (words.we_wordc)
		error = launch_start(words.we_wordv, ret_launch);
	else
		error = error_new(ERROR_USAGE, "-c: no command");
	wordfree(&words);
	return error;
}

/* Of a dyntrace that traced this process and was killed. */
static struct error *clean_leftovers(struct proc *proc)
{
	struct takeover takeover = { 0 };
	struct error *error = takeover_clean(proc, &takeover);

	if (!error)
		leftovers_tell(proc, &takeover);
	if (!error && takeover.left)
		cli_note("%s", takeover.why);
	return error;
}

static struct error *open_target(const struct words *words, struct run *run)
{
	struct error *error;
	pid_t pid;

	if (args.target) {
		error = proc_find(args.target, &pid);
		if (!error)
			error = proc_open(pid, &run->opened);
		run->proc = run->opened;
		return error ? error : clean_leftovers(run->proc);
	}
	if (args.command)
		error = launch_line(args.command, &run->launch);
	else
		error = launch_start(words->rest, &run->launch);
	if (!error)
		run->proc = launch_proc(run->launch);
	return error;
}

/* ---- the trace's directory ------------------------------------------------------------------ */

/* Before anything is started: a directory that is there already would spoil it all later. */
static struct error *check_output(void)
{
	struct stat st;

	if (args.output && !lstat(args.output, &st))
		return error_new(ERROR_FAILED, "%s exists already: name another directory, or remove it",
				 args.output);
	return NULL;
}

static struct error *choose_output(struct run *run)
{
	char date[32];
	time_t now = time(NULL);
	struct tm tm;

	if (!args.tracer->has_trace)
		return NULL;
	if (args.output) {
		run->output = strdup(args.output);
		return run->output ? NULL : error_new(ERROR_FAILED, "out of memory");
	}
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	const char *slash = strrchr(run->proc->exe, '/');
	const char *name = slash && slash[1] ? slash + 1 : run->proc->comm;
	if (asprintf(&run->output, "./%s-%s.dyntrace", name, date) < 0) {
		run->output = NULL;
		return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

/* ---- recording ------------------------------------------------------------------------------ */

static enum tracepoint_kind wanted_kind(const struct option_value *value)
{
	enum tracepoint_kind kind = (enum tracepoint_kind)value->option->tag;

	return kind == TRACEPOINT_ENTRY && args.exit ? TRACEPOINT_FUNCTION : kind;
}

/* All get the same filter, contexts and limits. */
static struct error *add_tracepoint(struct session *session, const struct option_value *value)
{
	struct tracepoint_spec spec = { .location = value->text,
					.wait = args.wait,
					.kind = wanted_kind(value),
					.name = args.name,
					.tracer = args.tracer_name,
					.tracer_argument = args.tracer_argument,
					.filter = args.filter,
					.contexts = args.context_types,
					.context_count = args.contexts.count,
					.every = args.every,
					.first = args.first,
					.rate = args.rate,
					.string_max = (uint32_t)args.string_max };

	for (size_t i = 0; i < args.contexts.count; i++)
		args.context_types[i] = args.contexts.items[i].text;
	return session_add(session, &spec, NULL);
}

static void tell_note(void *context, const char *line)
{
	(void)context;
	cli_note("%s", line);
}

static struct error *create_session(struct run *run)
{
	struct session_options options = { .output = run->output,
					   .buffer_size = args.buffer_size,
					   .follow_fork = !args.no_follow_fork,
					   .follow_exec = args.follow_exec,
					   .tell = tell_note,
					   .mode = (enum session_mode)args.mode };

	if (args.print)
		run->printer = printer_create(run->proc->comm);
	if (run->printer) {
		options.flush_ms = PRINT_MS;
		options.observe = printer_events;
		options.observe_context = run->printer;
	}
	struct error *error = session_create(run->proc, &options, &run->session);

	if (!error && run->printer)
		printer_attach(run->printer, run->session);

	for (size_t i = 0; i < args.what.count && !error; i++) {
		const struct option_value *value = &args.what.items[i];

		error = add_tracepoint(run->session, value);
	}
	return error;
}

/* A static program. */
static struct error *run_to_exits(struct run *run)
{
	taddr at = session_exits_from(run->session);

	return at.v ? launch_run_to(run->launch, at) : NULL;
}

/* What isn't in the program itself may be in its libraries, which are there a little later. */
static struct error *resolve_launched(struct run *run)
{
	struct error *error = session_resolve(run->session);
	struct error *running;
	bool loaded = false;

	/*
	 * No code of the program or of its libraries has run when those are loaded: they are needed for exits (the
	 * unwinder must be told) and for the watch over libc. Only the loader itself is traced from before.
	 */
	if (!error && !args.exit && !args.tracer->loads && !needs_libraries() && session_names_loader(run->session))
		return NULL;
	running = launch_run_to_loaded(run->launch, &loaded);
	if (!running && !loaded && !error)
		return args.exit || needs_libraries() ? run_to_exits(run) : NULL;
	if (running || !loaded) {
		error_free(running);
		return error;
	}
	error_free(error);
	return session_resolve(run->session);
}

static struct error *begin_launched(struct run *run)
{
	struct stop *stop = NULL;
	taddr from = taddr_of(0);
	struct error *error = resolve_launched(run);

	if (!error)
		error = session_tracers_from(run->session, &from);
	if (!error && from.v)
		error = launch_run_to(run->launch, from);
	if (!error && from.v)
		error = session_resolve(run->session);
	if (!error)
		error = stop_adopt(run->proc, run->proc->pid, &stop);
	if (error)
		return error;
	error = session_begin(run->session, stop);
	stop_disown(stop);
	return error ? error : launch_go(run->launch);
}

static struct error *begin(struct run *run)
{
	if (run->launch)
		return begin_launched(run);
	struct error *error = session_resolve(run->session);
	return error ? error : session_begin(run->session, NULL);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A command that was started here gets Ctrl-C itself, and we end with it; a second one ends us. */
static bool told_to_stop(const struct run *run)
{
	if (run->launch && last_signal == SIGINT)
		return signals_seen > 1;
	return signals_seen > 0;
}

static struct error *poll_end(struct run *run)
{
	if (run->launch)
		return launch_poll(run->launch, &run->ended, &run->status);
	run->ended = session_ended(run->session);
	return NULL;
}

/* One for all that asked meanwhile. Beside the trace itself, so that whoever reads that doesn't find them too. */
static struct error *take_snapshots(struct run *run)
{
	_cleanup_free_ char *path = NULL;
	struct reader_totals totals = { 0 };

	if (run->snapshots_asked == snapshots_wanted)
		return NULL;
	run->snapshots_asked = snapshots_wanted;
	if (args.mode != SESSION_OVERWRITE) {
		cli_note("SIGUSR1 means a snapshot, which is for --mode overwrite: all events are in %s", run->output);
		return NULL;
	}
	if (asprintf(&path, "%s.snapshot-%u", run->output, ++run->snapshots) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	_cleanup_error_ struct error *error = session_snapshot(run->session, NULL, path, &totals);
	if (error)
		cli_note("no snapshot: %s", error_text(error));
	else
		cli_note("snapshot: %llu events in %s", (unsigned long long)totals.events, path);
	return NULL;
}

static struct error *record(struct run *run)
{
	double end = args.seconds > 0 ? seconds_now() + args.seconds : 0;
	struct error *error = NULL;

	while (!error && !run->ended && !told_to_stop(run) && (!end || seconds_now() < end)) {
		error = session_step(run->session, args.tracer->kind == TRACER_LOG ? LOG_STEP_MS : STEP_MS);
		if (!error)
			error = take_snapshots(run);
		if (run->printer)
			printer_flush(run->printer, false);
		if (!error)
			error = poll_end(run);
	}
	return error;
}

/* --for is over and the command isn't: its exit status is ours. */
static struct error *wait_for_command(struct run *run)
{
	struct timespec nap = { .tv_nsec = 20 * 1000 * 1000 };
	struct error *error = NULL;

	while (run->launch && !error && !run->ended && !told_to_stop(run)) {
		error = poll_end(run);
		if (!error && !run->ended)
			nanosleep(&nap, NULL);
	}
	return error;
}

static int exit_status(const struct run *run)
{
	if (!run->launch)
		return 0;
	if (!run->ended)
		return 128 + last_signal;
	return WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status) : WEXITSTATUS(run->status);
}

/* So that one knows what to do next, and what it has cost. */
static void say_begun(const struct run *run)
{
	size_t placed = 0, count = session_tracepoint_count(run->session);

	for (size_t i = 0; i < count; i++)
		placed += !session_tracepoint(run->session, i).refusal;
	cli_note("tracing %s (%d): %zu tracepoint%s placed, target stopped for %.1f ms; Ctrl-C ends it",
		 run->proc->comm, run->proc->pid, placed, placed == 1 ? "" : "s",
		 (double)session_stopped_us(run->session) / 1000);
}

/* What a filter or context means nothing for. */
static void say_left_out(const struct run *run)
{
	const char *why;
	size_t count = session_left_out(run->session, &why);

	if (count)
		cli_note("left out %zu function%s: %s", count, count == 1 ? "" : "s", why);
}

static struct error *trace_target(struct run *run)
{
	struct session_summary summary;
	struct error *error = begin(run);

	if (error)
		return error;
	if (!args.quiet)
		say_left_out(run);
	if (!run->launch && !args.quiet)
		say_begun(run);
	error = record(run);
	struct error *ending = session_end(run->session, &summary);
	if (run->printer)
		printer_flush(run->printer, true);
	if (run->printer && printer_left_out(run->printer))
		cli_note("%llu lines were not printed, because nobody took them in time; the trace has them all",
			 (unsigned long long)printer_left_out(run->printer));
	if (summary.lines_left_out)
		cli_note("%llu lines were not written, because nobody took them in time",
			 (unsigned long long)summary.lines_left_out);
	if (!args.quiet)
		summary_print(run->session, &summary, run->output, args.all_rows);
	if (error)
		error_free(ending);
	return error ? error : ending;
}

/* The command is started for its address space, and never runs. */
static struct error *explain(struct run *run)
{
	bool loaded;
	struct error *error = run->launch ? launch_run_to_loaded(run->launch, &loaded) : NULL;

	return error ? error : explain_location(run->proc, args.explain);
}

static struct error *run_trace(const struct words *words, int *ret_status)
{
	_cleanup_(run_free) struct run run = { 0 };
	struct error *error = parse_tracer();

	if (!error)
		error = check_usage(words);

	if (!error)
		error = parse_rate();
	if (!error)
		error = check_output();
	if (error)
		return error;
	launch_remember_signals();
	catch_signals();
	error = open_target(words, &run);
	if (!error && args.explain)
		return explain(&run);
	if (!error)
		error = choose_output(&run);
	if (!error)
		error = create_session(&run);
	if (!error)
		error = trace_target(&run);
	if (!error)
		error = wait_for_command(&run);
	if (!error)
		*ret_status = exit_status(&run);
	return error;
}

const struct command command_trace = {
	.name = "trace",
	.summary = "trace a command or a running process",
	.usage = "-c \"COMMAND ARGS\" WHAT... [OPTIONS]\n"
		 "WHAT... [OPTIONS] -- COMMAND ARGS...\n"
		 "-p TARGET WHAT... [OPTIONS]",
	.details = "Records every hit of the places named by WHAT (--function, --probe) into a CTF trace, until\n"
		   "the target ends, Ctrl-C, or --for. The target is then as it was found.\n"
		   "\n"
		   "LOC is SYMBOL, SYMBOL+OFFSET, ADDRESS or FILE:LINE, each optionally with @MODULE (the file name\n"
		   "of the program or of a library). SYMBOL may be a glob, of the program's functions if there is no\n"
		   "@MODULE. Numbers are C-like: 31, 037, 0x1f.\n"
		   "\n"
		   "The exit status is the command's own; 125: an error of dyntrace's, 126: not permitted,\n"
		   "127: no such command.",
	.example = "dyntrace trace -c \"ls -l\" --function main -e --print\n"
		   "dyntrace trace -p redis-server --function processCommand --for 2\n"
		   "dyntrace trace -p redis-server --function 'zmalloc*' --filter '$rdi > 4096' -t backtrace\n"
		   "dyntrace trace -p redis-server --function '*Command' -e --mode overwrite --buffer-size 16M\n"
		   "dyntrace trace --function malloc@libc.so.6 --rate 100/s -o /tmp/malloc -- sort /etc/passwd\n"
		   "dyntrace trace --explain main -- ls",
	.options = trace_options,
	.runs_command = true,
	.run = run_trace,
};
