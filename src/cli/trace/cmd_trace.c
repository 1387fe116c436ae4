/*
 * cmd_trace.c - dyntrace trace: one-off tracing, without the daemon.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/explain/explain.h"
#include "cli/explain/filter_report.h"
#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "control/base/now.h"
#include "control/base/plural.h"
#include "old_trace.h"
#include "options/commands.h"
#include "summary.h"
#include "trace_args.h"
#include "trace_begin.h"
#include "trace_beside.h"
#include "trace_host.h"
#include "trace_question.h"
#include "trace_snapshot.h"

#define STEP_MS 50
#define LINE_STEP_MS 10
#define DAEMON_LOOK_NS 200000000ULL
#define DAEMON_LOOKS 2
#define EXIT_CUT_SHORT 125 /* as other errors of dyntrace's own */

static volatile sig_atomic_t signals_seen;
static volatile sig_atomic_t last_signal;
/* The target and the file system are as they were: a signal ends dyntrace at once, whatever a
 * library is busy with, and the kernel ends a command that hasn't begun. */
static volatile sig_atomic_t unchanged;
static volatile sig_atomic_t command_runs;

/* A running command gets Ctrl-C too, and dyntrace ends with it; a second Ctrl-C ends dyntrace. */
bool trace_must_stop(void)
{
	return signals_seen > (command_runs && last_signal == SIGINT);
}

static void on_signal(int number)
{
	int saved = errno;

	signals_seen = signals_seen + 1;
	last_signal = number;
	if (unchanged) {
		signal(number, SIG_DFL);
		raise(number); /* takes effect when this handler returns */
	} else if (trace_must_stop()) {
		interrupt_request();
	}
	errno = saved;
}

/* session_options.before_change */
void trace_will_change(void)
{
	unchanged = 0;
	if (trace_args.output)
		old_trace_move(trace_args.output);
}

void trace_command_runs(void)
{
	command_runs = 1;
}

/* Until trace_will_change. Signals that came before count. */
static void end_at_once(void)
{
	unchanged = 1;
	if (signals_seen) {
		signal(last_signal, SIG_DFL);
		raise(last_signal);
	}
}

static void on_snapshot(int number)
{
	(void)number;
	trace_snapshot_want();
}

/* Without SA_RESTART, so that a signal ends the wait for events. Ignored signals stay ignored.
 * Blocked ones are unblocked: else only SIGKILL would end dyntrace and leave its probes behind. */
static void catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
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
	/* Caught in every mode: a dyntrace killed by SIGUSR1 would leave its probes behind. */
	sigaction(SIGUSR1, &snapshot, NULL);
	/* Else a reader that goes ("| head") ends tracing: a dyntrace killed by SIGPIPE, too. */
	if (trace_args.print || trace_args.tracer->kind == TRACER_LOG)
		signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit of the file size is an error like others */
}

static void run_free(struct trace_run *run)
{
	trace_host_free(run->host);
	session_destroy(run->session);
	launch_free(run->launch);
	trace_targets_close(&run->opened);
	if (run->host_fd >= 0)
		close(run->host_fd);
	if (run->host_pidfd >= 0)
		close(run->host_pidfd);
	free(run->output);
}

/* ---- recording ------------------------------------------------------------------------------ */

static double seconds_now(void)
{
	return (double)now_ns() / 1e9;
}

/* Do processes run on that the target has forked? A process that forks and ends while we look may
 * hide its child: one look in vain isn't enough. */
static bool has_daemons(struct trace_run *run)
{
	uint64_t now = now_ns();

	if (now < run->next_look)
		return true;
	run->next_look = now + DAEMON_LOOK_NS;
	bool found = session_has_offspring(run->session);
	if (found && !run->has_told && !trace_args.quiet)
		cli_note("%s has ended, processes that it has forked run on; Ctrl-C ends tracing",
			 run->proc->comm);
	run->has_told |= found;
	run->quiet_looks = found ? 0 : run->quiet_looks + 1;
	return run->quiet_looks < DAEMON_LOOKS;
}

static struct error *poll_end(struct trace_run *run)
{
	struct error *error = NULL;

	if (run->launch)
		error = launch_poll(run->launch, &run->ended, &run->status);
	else
		run->ended = session_ended(run->session);
	if (run->ended) {
		command_runs = 0; /* Ctrl-C is for dyntrace alone */
		trace_snapshot_ended(run);
	}
	run->over = run->ended && !(trace_args.follow_daemons && has_daemons(run));
	return error;
}

/* Has the reader of --print gone, as head does after its last line? */
static bool is_unread(const struct trace_run *run)
{
	bool closed;

	session_unprinted(run->session, &closed);
	return closed;
}

/* --for counts from when hits count: when all was placed, in one stop. Of several processes, from
 * when the last has its tracepoints. */
static double count_from(const struct trace_run *run)
{
	uint64_t begun = session_begun_ns(run->session);

	return begun && !run->joined ? (double)begun / 1e9 : seconds_now();
}

/* Prints an answer of --each; returns when the next one is due. */
static double answer(const struct trace_run *run, double due)
{
	double now = seconds_now();

	trace_question_print(run->session, trace_args.reset);
	while (due <= now)
		due += trace_args.each;
	return due;
}

/* The command goes on where the disk is full, and so do its probes: what it still does is lost, and
 * counted (H39). Any other error is given back. */
static struct error *go_on_if_full(struct trace_run *run, struct error *error)
{
	if (!error || error_kind(error) != ERROR_FULL || !run->launch)
		return error;
	cli_note("%s", error_text(error));
	error_free(error);
	run->is_cut_short = true;
	session_give_up(run->session);
	return NULL;
}

static struct error *record(struct trace_run *run)
{
	double end = trace_args.seconds > 0 ? count_from(run) + trace_args.seconds : 0;
	double next = trace_args.each > 0 ? count_from(run) + trace_args.each : 0;
	bool has_lines = trace_args.print || trace_args.tracer->kind == TRACER_LOG;
	unsigned step = trace_args.snapshot_when ? TRIGGERS_LOOK_MS :
			has_lines ? LINE_STEP_MS : STEP_MS;
	struct error *error = NULL;

	while (!error && !run->over && !trace_must_stop() && !is_unread(run) &&
	       (!end || seconds_now() < end) && (!run->screen || run->screen->look(run))) {
		error = go_on_if_full(run, session_step(run->session, step));
		trace_host_step(run);
		if (!error)
			error = trace_snapshot_step(run);
		if (!error)
			error = poll_end(run);
		if (next && !run->over && seconds_now() >= next)
			next = answer(run, next);
	}
	if (run->screen)
		run->screen->end(run);
	/* Now, and not when thousands of tracepoints are out: all of them end together. */
	struct error *stopping = NULL;
	if (!trace_host_hands_over(run))
		stopping = session_recording(run->session, false);
	if (error && error_kind(error) == ERROR_INTERRUPTED) { /* the usual end, in a long step */
		error_free(error);
		error = NULL;
	}
	if (error)
		error_free(stopping);
	return error ? error : stopping;
}

/* Waits after --for until the command ends: its exit status becomes dyntrace's. */
static struct error *wait_for_command(struct trace_run *run)
{
	struct timespec nap = { .tv_nsec = 20 * 1000 * 1000 };
	struct error *error = NULL;

	while (run->launch && !error && !run->ended && !trace_must_stop()) {
		error = poll_end(run);
		if (!error && !run->ended)
			nanosleep(&nap, NULL);
	}
	return error;
}

static int exit_status(const struct trace_run *run)
{
	if (!run->launch)
		return run->is_cut_short ? EXIT_CUT_SHORT : 0;
	if (!run->ended)
		return 128 + last_signal;
	return WIFSIGNALED(run->status) ? 128 + WTERMSIG(run->status) : WEXITSTATUS(run->status);
}

/* Did every tracepoint wait for a library in which it can't be placed? */
static bool is_nothing_placed(const struct trace_run *run)
{
	size_t count = run->has_left ? 0 : session_tracepoint_count(run->session);

	for (size_t i = 0; i < count; i++) {
		struct tracepoint_info info = session_tracepoint(run->session, i);

		if (!info.refusal || !info.how || info.hits || info.lost)
			return false;
	}
	return count != 0;
}

static void note_begun(const struct trace_run *run)
{
	size_t placed = 0, count = session_tracepoint_count(run->session);

	for (size_t i = 0; i < count; i++) {
		struct tracepoint_info info = session_tracepoint(run->session, i);

		placed += !info.refusal && !info.is_trigger;
	}
	if (run->joined) {
		cli_note("tracing %s (%d) and %zu more process%s: %zu tracepoint%s placed; "
			 "Ctrl-C ends it",
			 run->proc->comm, run->proc->pid, run->joined, run->joined == 1 ? "" : "es",
			 placed, placed == 1 ? "" : "s");
		return;
	}
	cli_note(
		"tracing %s (%d): %zu tracepoint%s placed, target stopped for %.1f ms; Ctrl-C ends it",
		run->proc->comm, run->proc->pid, placed, placed == 1 ? "" : "s",
		(double)session_stopped_us(run->session) / 1000);
}

/* Functions of a glob for which a filter or context has no meaning. */
static void note_left_out(const struct trace_run *run)
{
	const char *why;
	size_t count = session_left_out(run->session, &why);

	if (count)
		cli_note("left out %zu function%s%s %s", count, count == 1 ? "" : "s",
			 count == 1 ? ":" : ", such as", why);
}

/* Nobody wonders about lines after the last that he wanted: --print | head. */
static void note_unprinted(const struct trace_run *run)
{
	bool closed;
	uint64_t count = session_unprinted(run->session, &closed);

	if (count && !closed)
		cli_note("%llu line%s not printed: %s not read in time%s",
			 (unsigned long long)count, PLURAL(count),
			 count == 1 ? "it was" : "they were",
			 trace_args.tracer->has_trace ? " (the trace has all events)" : "");
}

static void note_unheard(const struct trace_run *run)
{
	char text[1024];

	if (session_unheard(run->session, NULL, text, sizeof(text)))
		cli_note("%s", text);
}

/* Told however it ends, with -q and --json, too: the target isn't as it was. Its probes stay: that
 * is an error, if there is no other. */
static struct error *tell_left(const struct session_summary *summary, bool has_failed)
{
	if (summary->probes_left && !has_failed)
		return error_new(ERROR_FAILED, "%s", summary->why);
	if (summary->left)
		cli_note("%s", summary->why);
	return NULL;
}

static struct error *trace_target(struct trace_run *run)
{
	struct session_summary summary;
	trace_host_begin(run); /* now: a second one that finds our probes can reach us */
	struct error *error = trace_begin_record(run);

	if (error)
		return error;
	if (!trace_args.quiet)
		note_left_out(run);
	if (!run->launch && !trace_args.quiet)
		note_begun(run);
	if (!trace_args.quiet)
		note_unheard(run);
	error = record(run);
	if (!error && trace_host_hands_over(run))
		return trace_host_leave(run);
	struct error *ending = session_end(run->session, &summary);
	if (!ending)
		ending = trace_host_finish(run, &summary.totals);
	note_unprinted(run);
	trace_snapshot_end(run);
	if (run->launch && run->ended && summary.children && !trace_args.quiet)
		cli_note("%u forked %s and %s no longer traced", summary.children,
			 summary.children == 1 ? "child still runs" : "children still run",
			 summary.children == 1 ? "is" : "are");
	if (summary.lines_left_out)
		cli_note("%llu line%s not written: %s", (unsigned long long)summary.lines_left_out,
			 PLURAL(summary.lines_left_out), summary.lines_why);
	if (!trace_args.quiet)
		summary_print(run->session, &summary, run->output, &trace_args.summary);
	struct error *left = tell_left(&summary, error || ending);
	if (error)
		error_free(ending);
	return error ? error : ending ? ending : left;
}

/* Starts the command only for its address space: it never runs. */
static struct error *explain(struct trace_run *run)
{
	bool loaded;
	struct error *error = run->launch ? launch_run_to_loaded(run->launch, &loaded) : NULL;

	if (!error && run->proc->filtered)
		error = filter_report(run->proc);
	return error ? error : explain_location(run->proc, trace_args.explain);
}

/* Has the command that was started ended before it could be traced? Then its exit status counts. */
static bool has_ended_early(struct trace_run *run, const struct error *error)
{
	if (!error || error_kind(error) != ERROR_GONE || !run->launch)
		return false;
	_cleanup_error_ struct error *unknown = launch_poll(run->launch, &run->ended, &run->status);
	return !unknown && run->ended;
}

struct error *trace_run_with(const struct words *words, const struct trace_screen *screen,
			     int *ret_status)
{
	_cleanup_(run_free) struct trace_run run = { .screen = screen,
						       .host_fd = -1,
						       .host_pidfd = -1 };
	struct error *error = trace_args_check(words);

	if (!error)
		error = trace_begin_check_output();
	if (error)
		return error;
	launch_remember_signals();
	catch_signals();
	error = trace_begin_open(words, &run);
	if (!error && (run.has_daemon || run.host_fd >= 0) && screen)
		return error_new(ERROR_REFUSED,
				 "process %d is traced by %s already ('dyntrace add %d:LOC count' and "
				 "list-tracepoints count in a daemon; end that first for top)",
				 run.proc->pid, run.has_daemon ? "the daemon" : "another dyntrace",
				 run.proc->pid);
	if (!error && (run.has_daemon || run.host_fd >= 0))
		return trace_beside_run(&run);
	if (!error)
		end_at_once();
	if (!error && trace_args.explain)
		return explain(&run);
	if (!error)
		error = trace_begin_choose_output(&run);
	if (!error)
		error = trace_begin_create_session(&run);
	if (!error)
		error = trace_target(&run);
	if (error && error_kind(error) == ERROR_FULL) { /* the command goes on */
		if (!run.is_cut_short)
			cli_note("%s", error_text(error));
		error = (error_free(error), NULL);
		run.is_cut_short = true;
	}
	if (has_ended_early(&run, error)) {
		cli_note("%s", error_text(error));
		error_free(error);
		*ret_status = exit_status(&run);
		return NULL;
	}
	if (!error)
		error = wait_for_command(&run);
	if (!error && is_nothing_placed(&run))
		error = error_new(ERROR_FAILED, "no tracepoint could be placed: nothing was traced");
	if (!error)
		*ret_status = exit_status(&run);
	if (!error || error_kind(error) != ERROR_INTERRUPTED)
		return error;
	*ret_status = 128 + last_signal;
	error_free(error);
	return NULL;
}

static struct error *run_trace(const struct words *words, int *ret_status)
{
	return trace_run_with(words, NULL, ret_status);
}

const struct command command_trace = {
	.name = "trace",
	.summary = "trace a command or a running process",
	.usage = "-c \"COMMAND ARGS\" WHAT... [OPTIONS]\n"
		 "WHAT... [OPTIONS] -- COMMAND ARGS...\n"
		 "-p TARGET... WHAT... [OPTIONS]",
	.details =
		"Records every hit of WHAT (--function, --probe, --marker) in a CTF trace until the target\n"
		"ends, Ctrl-C, or --for, and leaves the target as it was.\n"
		"\n"
		"LOC is SYMBOL, SYMBOL+OFFSET, ADDRESS or FILE:LINE, each optionally with @MODULE (the file name\n"
		"of the program or of a library; an address in one of several copies of a library). SYMBOL may\n"
		"be a glob; without @MODULE it matches functions of the program only. Numbers are C-like: 31, 037, 0x1f.\n"
		"\n"
		"The exit status is the command's own; 125: an error of dyntrace, 126: not permitted,\n"
		"127: command not found.",
	.example =
		"dyntrace trace -c \"ls -l\" --function main -e --print\n"
		"dyntrace trace -p redis-server --function processCommand --for 2\n"
		"dyntrace trace -p nginx --function 'ngx_http_*' -e --for 500ms\n"
		"dyntrace trace -p redis-server --function 'zmalloc*' --filter '$rdi > 4096' -t backtrace\n"
		"dyntrace trace -p redis-server --function '*Command' -e --mode overwrite --buffer-size 16M\n"
		"dyntrace trace --function malloc@libc.so.6 --rate 100/s -o /tmp/malloc -- sort /etc/passwd\n"
		"dyntrace trace --explain main -- ls",
	.options = trace_options,
	.runs_command = true,
	.run = run_trace,
};
