#include "trace_snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "old_trace.h"
#include "options/commands.h"
#include "trace_args.h"

#define NS_PER_S 1e9
#define LOOK_NS (TRACE_SNAPSHOT_STEP_MS * 1000000ULL)
#define LOOK_SHARE 10 /* of the time between looks at most this part is spent looking */

static volatile sig_atomic_t wanted;

void trace_snapshot_want(void)
{
	wanted = wanted + 1;
}

/* ---- options -------------------------------------------------------------------------------- */

static struct error *check_when(void)
{
	const struct {
		bool is_given;
		const char *name;
	} without[] = {
		{ trace_args.follow_exec, "--follow-exec" },
		{ trace_args.follow_daemons, "--follow-daemons" },
		{ trace_args.mode == SESSION_BLOCK, "--mode block" },
		{ trace_args.targets.count > 1, "several processes" },
		{ trace_args.children, "--children" },
	};

	if (trace_args.tracer->kind != TRACER_CTF)
		return error_new(ERROR_USAGE, "--snapshot-when: not with tracer '%s' (only with ctf)",
				 trace_args.tracer->name);
	for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
		if (without[i].is_given)
			return error_new(ERROR_USAGE, "--snapshot-when: not with %s",
					 without[i].name);
	}
	trace_args.mode = SESSION_OVERWRITE;
	return NULL;
}

struct error *trace_snapshot_check(void)
{
	struct error *error = trace_args.snapshot_when ? check_when() : NULL;

	if (error)
		return error;
	if (trace_args.snapshot_every > 0 && !trace_args.snapshot_when)
		return error_new(ERROR_USAGE, "--snapshot-every: needs --snapshot-when EXPR");
	if (trace_args.on_snapshot && trace_args.mode != SESSION_OVERWRITE)
		return error_new(ERROR_USAGE,
				 "--on-snapshot: needs --snapshot-when EXPR or --mode overwrite");
	if (!(trace_args.snapshot_every > 0))
		trace_args.snapshot_every = TRACE_SNAPSHOT_EVERY;
	return NULL;
}

/* ---- triggers ------------------------------------------------------------------------------- */

/* A hit that the filter keeps out of the trace doesn't ask. */
struct error *trace_snapshot_add(struct session *session, const struct tracepoint_spec *spec)
{
	struct tracepoint_spec trigger = { .location = spec->location,
					   .kind = spec->kind,
					   .wait = spec->wait,
					   .string_max = spec->string_max,
					   .tracer = "count" };
	_cleanup_free_ char *filter = NULL;

	if (!trace_args.snapshot_when)
		return NULL;
	if (spec->filter && asprintf(&filter, "(%s) && (%s)", spec->filter,
				     trace_args.snapshot_when) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	trigger.filter = filter ? filter : trace_args.snapshot_when;
	return error_wrap(session_add(session, &trigger, NULL), "--snapshot-when");
}

bool trace_snapshot_is_trigger(const struct tracepoint_info *info)
{
	return trace_args.snapshot_when && info->tracer && !strcmp(info->tracer, "count");
}

/* With exits, a call asks when it returns: its result and duration are known then. */
static uint64_t count_triggers(const struct session *session)
{
	uint64_t count = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (trace_snapshot_is_trigger(&info))
			count += info.has_exit ? info.times.calls : info.hits;
	}
	return count;
}

/* Looks at the counters, if it is time to. True: a snapshot is due (O11). */
static bool look(struct trace_run *run)
{
	uint64_t now = now_ns();

	if (!trace_args.snapshot_when || now < run->next_trigger_look)
		return false;
	run->triggers = count_triggers(run->session);
	uint64_t took = now_ns() - now;
	run->next_trigger_look =
		now + took + (took * LOOK_SHARE > LOOK_NS ? took * LOOK_SHARE : LOOK_NS);
	if (run->triggers == run->triggers_seen)
		return false;
	run->triggers_new += run->triggers - run->triggers_seen;
	run->triggers_seen = run->triggers;
	return now >= run->next_triggered;
}

/* ---- the user's command --------------------------------------------------------------------- */

static bool is_running(pid_t *child)
{
	if (*child > 0 && waitpid(*child, NULL, WNOHANG) == 0)
		return true;
	*child = 0;
	return false;
}

/* A group of its own: Ctrl-C is for dyntrace. Signals as a shell would start it. */
static int spawn(const char *command, char **environment, pid_t *ret_child)
{
	char *words[] = { "sh", "-c", (char *)command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETPGROUP);
	int failed = posix_spawn(ret_child, "/bin/sh", &files, &attributes, words, environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return failed;
}

/* Runs --on-snapshot, with the snapshot's directory and the reason in its environment. */
static void run_command(struct trace_run *run, const char *path, const char *why)
{
	char pid[16];
	int failed;

	if (!trace_args.on_snapshot)
		return;
	if (is_running(&run->on_snapshot)) {
		cli_note("--on-snapshot: not run for %s: the command still runs for the one before",
			 path);
		return;
	}
	snprintf(pid, sizeof(pid), "%d", run->proc->pid);
	failed = setenv("DYNTRACE_SNAPSHOT", path, 1) || setenv("DYNTRACE_SNAPSHOT_WHY", why, 1) ||
				 setenv("DYNTRACE_PID", pid, 1) ?
			 errno :
			 spawn(trace_args.on_snapshot, environ, &run->on_snapshot);
	if (failed)
		cli_note("--on-snapshot: cannot start the command: %s", strerror(failed));
}

/* ---- snapshots ------------------------------------------------------------------------------ */

/* Keeps as many as --max-files says. */
static void remove_old(const struct trace_run *run)
{
	uint64_t keep = trace_args.limit_args.max_files;
	_cleanup_free_ char *path = NULL;

	if (keep && run->snapshots > keep &&
	    asprintf(&path, "%s.snapshot-%" PRIu64, run->output, run->snapshots - keep) >= 0)
		old_trace_remove(path);
}

/* The directory is beside the trace, not inside: a reader of the trace must not find it. */
static struct error *take(struct trace_run *run, const char *why)
{
	_cleanup_free_ char *path = NULL;
	struct reader_totals totals = { 0 };

	if (asprintf(&path, "%s.snapshot-%u", run->output, ++run->snapshots) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	_cleanup_error_ struct error *error = session_snapshot(run->session, NULL, path, &totals);
	if (error) {
		cli_note("no snapshot: %s", error_text(error));
		return NULL;
	}
	cli_note("snapshot: %llu events in %s%s%s", (unsigned long long)totals.events, path,
		 *why ? ": " : "", why);
	remove_old(run);
	run_command(run, path, *why ? why : "SIGUSR1");
	return NULL;
}

/* Takes one snapshot for all signals since the last. */
static struct error *take_wanted(struct trace_run *run)
{
	if (run->snapshots_handled == wanted)
		return NULL;
	run->snapshots_handled = wanted;
	if (trace_args.mode == SESSION_OVERWRITE)
		return take(run, "");
	cli_note("no snapshot: SIGUSR1 works with --mode overwrite only (all events are in %s)",
		 run->output);
	return NULL;
}

/* "3 triggers", and none is left to tell. */
static void tell_triggers(struct trace_run *run, char *ret_text, size_t size)
{
	snprintf(ret_text, size, "%" PRIu64 " trigger%s", run->triggers_new,
		 run->triggers_new == 1 ? "" : "s");
	run->triggers_new = 0;
}

struct error *trace_snapshot_step(struct trace_run *run)
{
	struct error *error = take_wanted(run);
	char why[64];

	is_running(&run->on_snapshot); /* reaps it */
	if (error || !look(run))
		return error;
	tell_triggers(run, why, sizeof(why));
	run->next_triggered = now_ns() + (uint64_t)(trace_args.snapshot_every * NS_PER_S);
	return take(run, why);
}

/* Triggers since the last look: the trace is their snapshot, if one is due. */
static void end_triggers(struct trace_run *run)
{
	char why[64];

	run->next_trigger_look = 0;
	bool is_due = look(run);
	if (!run->triggers_new)
		return;
	tell_triggers(run, why, sizeof(why));
	if (!is_due) {
		cli_note("%s without a snapshot (at most one per %g s: --snapshot-every)", why,
			 trace_args.snapshot_every);
		return;
	}
	cli_note("%s at the end: the last events are in %s", why, run->output);
	run_command(run, run->output, why);
}

void trace_snapshot_end(struct trace_run *run)
{
	const char *name = run->launch && run->ended && WIFSIGNALED(run->status) ?
				   sigabbrev_np(WTERMSIG(run->status)) :
				   NULL;
	char why[64];

	end_triggers(run);
	if (!name || trace_args.mode != SESSION_OVERWRITE || !run->output)
		return;
	snprintf(why, sizeof(why), "killed by SIG%s", name);
	cli_note("%s was %s: its last events are in %s", run->proc->comm, why, run->output);
	run_command(run, run->output, why);
}
