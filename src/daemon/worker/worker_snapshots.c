#include "worker_snapshots.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "daemon/keeper/keeper.h"
#include "worker_events.h"

/* ---- one snapshot --------------------------------------------------------------------------- */

/* The snapshot lies beside the trace, and the same keeper makes it. */
static struct error *take(struct worker *worker, uint64_t last_ns, struct trace_dir **ret_directory)
{
	struct reader_totals totals = { 0 };
	struct trace_dir *directory = NULL;
	char suffix[32];

	assert(worker->directory && keeper_has_made(worker->directory));
	snprintf(suffix, sizeof(suffix), ".snapshot-%u", worker->snapshots + 1);
	struct error *error = keeper_beside(worker->directory, suffix, &directory);
	if (error)
		return error;
	worker->snapshots++;
	error = session_snapshot(worker->session, directory, NULL, last_ns, &totals);
	if (error)
		trace_dir_free(directory);
	else
		*ret_directory = directory;
	return error;
}

static void tell_item(struct worker *worker, const struct worker_reply *reply, const char *path)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_ITEM, reply->sequence);
	wire_text(&out, WIRE_OUTPUT, path);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

/* Is there a flight recorder to take a snapshot of? */
static struct error *check_mode(const struct worker *worker)
{
	if (worker->mode == SESSION_OVERWRITE)
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d is recorded as it runs (snapshots need overwrite mode: detach it, "
			 "then 'dyntrace attach --mode overwrite %d')",
			 worker->pid, worker->pid);
}

struct error *worker_snapshots_do(struct worker *worker, const struct wire_message *message,
				  struct worker_reply *reply)
{
	struct error *error = worker_commands_not_attached(worker);
	struct trace_dir *directory = NULL;

	if (!error)
		error = check_mode(worker);
	if (!error && (!worker->directory || !keeper_has_made(worker->directory)))
		error = error_new(ERROR_FAILED,
				  "process %d has no tracepoint yet: no snapshot to take",
				  worker->pid);
	if (!error)
		error = take(worker, wire_get_number(message, WIRE_LAST, 0), &directory);
	if (error)
		return error;
	tell_item(worker, reply, directory->path);
	worker_events_tell_trace(worker, "snapshot", "asked for", directory->path);
	trace_dir_free(directory);
	return NULL;
}

/* ---- triggers ------------------------------------------------------------------------------- */

struct error *worker_snapshots_check(const struct worker *worker,
				     const struct wire_message *message)
{
	const char *tracer = wire_get_text(message, WIRE_TRACER);

	if (!wire_get_text(message, WIRE_SNAPSHOT_WHEN))
		return NULL;
	if (tracer && strcmp(tracer, "ctf") != 0)
		return error_new(ERROR_USAGE, "--snapshot-when: not with tracer '%s' (only with ctf)",
				 tracer);
	return error_wrap(check_mode(worker), "--snapshot-when");
}

struct error *worker_snapshots_add(struct worker *worker, const struct wire_message *message,
				   const struct tracepoint_spec *spec,
				   const struct name_list *names, struct worker_reply *reply)
{
	const char *when = wire_get_text(message, WIRE_SNAPSHOT_WHEN);

	if (!when)
		return NULL;
	struct error *error = triggers_add_as(worker->session, spec, when, names, &reply->triggers);
	if (error)
		return error;
	worker->triggers.every_ns = wire_get_number(message, WIRE_SNAPSHOT_EVERY,
						    (uint64_t)(TRIGGERS_EVERY_S * 1e9));
	worker->has_triggers = true;
	return NULL;
}

struct error *worker_snapshots_follow(struct worker *worker)
{
	if (!worker->has_triggers)
		return NULL;
	struct error *error = triggers_follow(worker->session);
	worker->has_triggers = triggers_exist(worker->session);
	return error;
}

int worker_snapshots_timeout_ms(const struct worker *worker)
{
	return worker->session && worker->has_triggers ? TRIGGERS_LOOK_MS : -1;
}

/* Keeps the directory, to remove it when there are newer ones. */
static void keep(struct worker *worker, struct trace_dir *directory)
{
	if (!vec_push(&worker->kept, directory)) {
		trace_dir_free(directory);
		return;
	}
	if (worker->kept.count <= worker->keep)
		return;
	keeper_drop(worker->kept.items[0]);
	worker->kept.count--;
	for (size_t i = 0; i < worker->kept.count; i++)
		worker->kept.items[i] = worker->kept.items[i + 1];
}

void worker_snapshots_step(struct worker *worker)
{
	struct trace_dir *directory = NULL;
	char why[64];

	if (!worker->has_triggers || !worker->directory || !keeper_has_made(worker->directory) ||
	    !triggers_look(&worker->triggers, worker->session))
		return;
	triggers_tell(&worker->triggers, why, sizeof(why));
	_cleanup_error_ struct error *error = take(worker, 0, &directory);
	if (error) {
		error = error_wrap(take_ptr(&error), "no snapshot for %s", why);
		worker_events_tell(worker, "snapshot-failed", error_text(error));
		return;
	}
	worker_events_tell_trace(worker, "snapshot", why, directory->path);
	keep(worker, directory);
}

void worker_snapshots_end(struct worker *worker, const char *trace, const char *how)
{
	char text[64];

	if (worker->mode == SESSION_OVERWRITE && how && trace)
		worker_events_tell_trace(worker, "snapshot", how, trace);
	else if (worker->triggers.fresh && trace) {
		triggers_tell(&worker->triggers, text, sizeof(text));
		worker_events_tell_trace(worker, "snapshot", text, trace);
	}
}

void worker_snapshots_free(struct worker *worker)
{
	for (size_t i = 0; i < worker->kept.count; i++)
		trace_dir_free(worker->kept.items[i]);
	vec_free(&worker->kept);
}
