#include "trace_snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/plural.h"
#include "control/proc/proc_end.h"
#include "old_trace.h"
#include "options/commands.h"
#include "trace_args.h"

#define NS_PER_S 1e9

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
		trace_args.snapshot_every = TRIGGERS_EVERY_S;
	return NULL;
}

/* ---- the user's command --------------------------------------------------------------------- */

/* Runs --on-snapshot, with the snapshot's directory and the reason in its environment. */
static void run_command(struct trace_run *run, const char *path, const char *why)
{
	run->on_snapshot.text = trace_args.on_snapshot;
	if (!trace_args.on_snapshot)
		return;
	int failed = user_command_start(&run->on_snapshot, path, why, run->proc->pid);
	if (failed == EBUSY)
		cli_note("--on-snapshot: not run for %s: the command still runs for the one before",
			 path);
	else if (failed)
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
	_cleanup_error_ struct error *error =
		session_snapshot(run->session, NULL, path, 0, &totals);
	if (error) {
		cli_note("no snapshot: %s", error_text(error));
		return NULL;
	}
	cli_note("snapshot: %llu event%s in %s%s%s", (unsigned long long)totals.events,
		 PLURAL(totals.events), path, *why ? ": " : "", why);
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

struct error *trace_snapshot_add(struct session *session, const struct tracepoint_spec *spec)
{
	return trace_args.snapshot_when ?
		       triggers_add(session, spec, trace_args.snapshot_when) :
		       NULL;
}

struct error *trace_snapshot_step(struct trace_run *run)
{
	struct error *error = take_wanted(run);
	char why[64];

	user_command_runs(&run->on_snapshot); /* reaps it */
	run->triggers.every_ns = (uint64_t)(trace_args.snapshot_every * NS_PER_S);
	if (error || !trace_args.snapshot_when || !triggers_look(&run->triggers, run->session))
		return error;
	triggers_tell(&run->triggers, why, sizeof(why));
	return take(run, why);
}

/* Triggers since the last look: the trace is their snapshot, if one is due. */
static void end_triggers(struct trace_run *run)
{
	char why[64];

	if (!trace_args.snapshot_when)
		return;
	run->triggers.next_look = 0;
	bool is_due = triggers_look(&run->triggers, run->session);
	if (!run->triggers.fresh)
		return;
	triggers_tell(&run->triggers, why, sizeof(why));
	if (!is_due) {
		cli_note("%s without a snapshot (at most one per %g s: --snapshot-every)", why,
			 trace_args.snapshot_every);
		return;
	}
	cli_note("%s at the end: the last events are in %s", why, run->output);
	run_command(run, run->output, why);
}

/* The kernel forgets how a process ended when its parent has waited for it: asked at once. */
void trace_snapshot_ended(struct trace_run *run)
{
	int status = run->status;

	if (!run->how_ended[0] && (run->launch || proc_end_status(run->proc, &status)))
		proc_end_killed(status, run->how_ended, sizeof(run->how_ended));
}

void trace_snapshot_end(struct trace_run *run)
{
	end_triggers(run);
	if (!run->ended || !run->how_ended[0] || trace_args.mode != SESSION_OVERWRITE ||
	    !run->output)
		return;
	cli_note("%s was %s: its last events are in %s", run->proc->comm, run->how_ended,
		 run->output);
	run_command(run, run->output, run->how_ended);
}
