/*
 * cmd_trace.c - dyntrace trace: the quick way, with no daemon.
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

#include "control/base/now.h"
#include "control/base/cleanup.h"
#include "control/launch/launch.h"
#include "control/session/session.h"
#include "options/commands.h"
#include "explain.h"
#include "leftovers.h"
#include "print.h"
#include "summary.h"
#include "trace_args.h"

#define STEP_MS 50
#define PRINT_MS 50
#define LOG_STEP_MS 10

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

/* Without SA_RESTART: a signal ends the wait for events. A signal that was ignored stays so; one that
 * was blocked doesn't, as dyntrace could only be killed then, which leaves its probes behind. */
static void catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction snapshot = { .sa_handler = on_snapshot };
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t caught;

	sigemptyset(&caught);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction old;

		if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
		sigaddset(&caught, numbers[i]);
	}
	sigprocmask(SIG_UNBLOCK, &caught, NULL);
	/* in every mode: a dyntrace that dies of it leaves its probes behind */
	sigaction(SIGUSR1, &snapshot, NULL);
	if (trace_args.print || trace_args.tracer->kind == TRACER_LOG)
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
		return error_new(
			ERROR_USAGE,
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

	if (trace_args.target) {
		error = proc_find(trace_args.target, &pid);
		if (!error)
			error = proc_open(pid, &run->opened);
		run->proc = run->opened;
		return error ? error : clean_leftovers(run->proc);
	}
	if (trace_args.command)
		error = launch_line(trace_args.command, &run->launch);
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

	if (trace_args.output && !lstat(trace_args.output, &st))
		return error_new(ERROR_FAILED,
				 "%s exists already: name another directory, or remove it",
				 trace_args.output);
	return NULL;
}

/* Its file's name, unless it was started by another one (redis-server is a link to
 * redis-check-rdb). */
static const char *program_name(const struct proc *proc)
{
	const char *slash = strrchr(proc->exe, '/'), *comm = proc->comm;

	if (!slash || !slash[1])
		return comm;
	return strncmp(slash + 1, comm, strlen(comm)) == 0 || !*comm || strpbrk(comm, "/ \t\n") ?
		       slash + 1 :
		       comm;
}

static struct error *choose_output(struct run *run)
{
	char date[32];
	time_t now = time(NULL);
	struct tm tm;

	if (!trace_args.tracer->has_trace)
		return NULL;
	if (trace_args.output) {
		run->output = strdup(trace_args.output);
		return run->output ? NULL : error_new(ERROR_FAILED, "out of memory");
	}
	strftime(date, sizeof(date), "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
	const char *name = program_name(run->proc);
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

	return kind == TRACEPOINT_ENTRY && trace_args.exit ? TRACEPOINT_FUNCTION : kind;
}

/* All get the same filter, contexts and limits. */
static struct error *add_tracepoint(struct session *session, const struct option_value *value)
{
	struct tracepoint_spec spec = { .location = value->text,
					.wait = trace_args.wait,
					.kind = wanted_kind(value),
					.name = trace_args.name,
					.tracer = trace_args.tracer_name,
					.tracer_argument = trace_args.tracer_argument,
					.filter = trace_args.filter,
					.contexts = trace_args.context_types,
					.context_count = trace_args.contexts.count,
					.every = trace_args.every,
					.first = trace_args.first,
					.rate = trace_args.rate,
					.string_max = (uint32_t)trace_args.string_max };

	for (size_t i = 0; i < trace_args.contexts.count; i++)
		trace_args.context_types[i] = trace_args.contexts.items[i].text;
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
					   .buffer_size = trace_args.buffer_size,
					   .follow_fork = !trace_args.no_follow_fork,
					   .follow_exec = trace_args.follow_exec,
					   .tell = tell_note,
					   .mode = (enum session_mode)trace_args.mode };

	if (trace_args.print)
		run->printer = printer_create(run->proc->comm);
	if (run->printer) {
		options.flush_ms = PRINT_MS;
		options.observe = printer_events;
		options.observe_context = run->printer;
	}
	struct error *error = session_create(run->proc, &options, &run->session);

	if (!error && run->printer)
		printer_attach(run->printer, run->session);

	for (size_t i = 0; i < trace_args.what.count && !error; i++) {
		const struct option_value *value = &trace_args.what.items[i];

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
	 * No code of the program or of its libraries has run when those are loaded: they are needed
	 * for exits (the unwinder must be told) and for the watch over libc. Only the loader itself
	 * is traced from before.
	 */
	if (!error && !trace_args.exit && !trace_args.tracer->loads &&
	    !trace_args_need_libraries() && session_names_loader(run->session))
		return NULL;
	running = launch_run_to_loaded(run->launch, &loaded);
	if (!running && !loaded && !error)
		return trace_args.exit || trace_args_need_libraries() ? run_to_exits(run) : NULL;
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
	return (double)now_ns() / 1e9;
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

/* One for all that asked meanwhile. Beside the trace itself, so that whoever reads that doesn't
 * find them too. */
static struct error *take_snapshots(struct run *run)
{
	_cleanup_free_ char *path = NULL;
	struct reader_totals totals = { 0 };

	if (run->snapshots_asked == snapshots_wanted)
		return NULL;
	run->snapshots_asked = snapshots_wanted;
	if (trace_args.mode != SESSION_OVERWRITE) {
		cli_note(
			"SIGUSR1 means a snapshot, which is for --mode overwrite: all events are in %s",
			run->output);
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
	double end = trace_args.seconds > 0 ? seconds_now() + trace_args.seconds : 0;
	struct error *error = NULL;

	while (!error && !run->ended && !told_to_stop(run) && (!end || seconds_now() < end)) {
		error = session_step(run->session,
				     trace_args.tracer->kind == TRACER_LOG ? LOG_STEP_MS : STEP_MS);
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
	cli_note(
		"tracing %s (%d): %zu tracepoint%s placed, target stopped for %.1f ms; Ctrl-C ends it",
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
	if (!trace_args.quiet)
		say_left_out(run);
	if (!run->launch && !trace_args.quiet)
		say_begun(run);
	error = record(run);
	struct error *ending = session_end(run->session, &summary);
	if (run->printer)
		printer_flush(run->printer, true);
	if (run->printer && printer_left_out(run->printer))
		cli_note(
			"%llu lines were not printed, because nobody took them in time; the trace has them all",
			(unsigned long long)printer_left_out(run->printer));
	if (summary.lines_left_out)
		cli_note("%llu lines were not written: %s",
			 (unsigned long long)summary.lines_left_out,
			 summary.lines_failed ? strerror(summary.lines_failed) :
						"nobody took them in time");
	if (!trace_args.quiet)
		summary_print(run->session, &summary, run->output, trace_args.all_rows);
	if (error)
		error_free(ending);
	return error ? error : ending;
}

/* The command is started for its address space, and never runs. */
static struct error *explain(struct run *run)
{
	bool loaded;
	struct error *error = run->launch ? launch_run_to_loaded(run->launch, &loaded) : NULL;

	return error ? error : explain_location(run->proc, trace_args.explain);
}

static struct error *run_trace(const struct words *words, int *ret_status)
{
	_cleanup_(run_free) struct run run = { 0 };
	struct error *error = trace_args_check(words);

	if (!error)
		error = check_output();
	if (error)
		return error;
	launch_remember_signals();
	catch_signals();
	error = open_target(words, &run);
	if (!error && trace_args.explain)
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
	.details =
		"Records every hit of the places named by WHAT (--function, --probe) into a CTF trace, until\n"
		"the target ends, Ctrl-C, or --for. The target is then as it was found.\n"
		"\n"
		"LOC is SYMBOL, SYMBOL+OFFSET, ADDRESS or FILE:LINE, each optionally with @MODULE (the file name\n"
		"of the program or of a library). SYMBOL may be a glob, of the program's functions if there is no\n"
		"@MODULE. Numbers are C-like: 31, 037, 0x1f.\n"
		"\n"
		"The exit status is the command's own; 125: an error of dyntrace's, 126: not permitted,\n"
		"127: no such command.",
	.example =
		"dyntrace trace -c \"ls -l\" --function main -e --print\n"
		"dyntrace trace -p redis-server --function processCommand --for 2\n"
		"dyntrace trace -p redis-server --function 'zmalloc*' --filter '$rdi > 4096' -t backtrace\n"
		"dyntrace trace -p redis-server --function '*Command' -e --mode overwrite --buffer-size 16M\n"
		"dyntrace trace --function malloc@libc.so.6 --rate 100/s -o /tmp/malloc -- sort /etc/passwd\n"
		"dyntrace trace --explain main -- ls",
	.options = trace_options,
	.runs_command = true,
	.run = run_trace,
};
