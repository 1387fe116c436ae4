/*
 * worker_attach.c - into the target and out of it: leftovers of a dead controller, attach, detach.
 */
#include "worker_attach.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "confine.h"
#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "control/session/budget/budget.h"
#include "control/session/takeover/takeover.h"
#include "daemon/keeper/keeper.h"
#include "worker_events.h"
#include "worker_snapshots.h"

/* ---- leftovers of a dead controller --------------------------------------------------------- */

static void tell_cleaned(struct worker *worker, const struct takeover *takeover)
{
	char text[TAKEOVER_TEXT];

	if (!takeover->found)
		return;
	assert(worker->proc);
	takeover_describe(worker->proc, takeover, text);
	free(worker->cleaned);
	worker->cleaned = strdup(text);
	worker_events_tell(worker, "cleaned", text);
}

/* Opens the directory of the trace that a killed worker was writing, if the supervisor knows it. */
static void open_old_trace(struct worker *worker, const struct wire_message *message)
{
	int fd = wire_get_text(message, WIRE_OUTPUT) ? channel_take_fd(&worker->channel) : -1;
	struct trace_dir *directory = NULL;

	if (fd < 0)
		return;
	_cleanup_error_ struct error *error = keeper_dir(fd, &directory);
	if (!error)
		error = keeper_open_again(directory);
	if (error) {
		error = error_wrap(take_ptr(&error), "cannot go on with the trace: another begins");
		worker_events_tell(worker, "lost", error_text(error));
		trace_dir_free(directory);
		return;
	}
	assert(!worker->directory);
	worker->directory = directory;
}

/* Goes on with what a killed worker, or a killed dyntrace without a daemon, has left, or cleans
 * up. */
static struct error *use_leftovers(struct worker *worker, const struct wire_message *message)
{
	bool comes_back = wire_get_number(message, WIRE_TRACEPOINT_COUNT, 0) > 0, waits = false;
	struct takeover takeover = { 0 };

	open_old_trace(worker, message);
	struct error *error =
		takeover_inherit(worker->session, worker->directory, comes_back, &takeover, &waits);
	if (error)
		return error;
	tell_cleaned(worker, &takeover);
	if (session_goes_on(worker->session))
		session_set_directory(worker->session, worker->directory);
	else
		trace_dir_free(take_ptr(&worker->directory));
	return NULL;
}

struct error *worker_attach_settle(struct worker *worker, const struct wire_message *message,
				   struct worker_reply *reply)
{
	struct takeover takeover = { 0 };

	(void)message;
	(void)reply;
	struct error *error = worker->session ? takeover_settle(worker->session, &takeover) : NULL;
	tell_cleaned(worker, &takeover);
	if (worker->session) {
		takeover_give_counts(worker->session);
		triggers_begin(&worker->triggers, worker->session);
	}
	worker->settled = true;
	return error;
}

bool worker_attach_retry(struct worker *worker, struct error **error)
{
	struct takeover takeover = { 0 };

	if (!*error || error_kind(*error) == ERROR_GONE || !worker->session ||
	    !takeover_waits(worker->session))
		return false;
	error_free(take_ptr(error));
	error_free(takeover_settle(worker->session, &takeover));
	tell_cleaned(worker, &takeover);
	return true;
}

/* ---- attach --------------------------------------------------------------------------------- */

/* session_options.open_log: the file that the client's keeper has opened. The target's own output
 * (NULL) needs no keeper: it belongs to the worker's user. */
static int open_log(void *context, const char *file)
{
	struct worker *worker = context;

	return file ? take_fd(&worker->log) : -1;
}

static struct error *begin(struct worker *worker, const struct wire_message *message)
{
	assert(worker->session && !worker->directory);
	struct error *error = use_leftovers(worker, message);

	if (!error)
		error = confine_worker(CONFINE_WHOLE);
	if (!error)
		error = session_resolve(worker->session);
	if (!error)
		error = session_begin(worker->session, NULL);
	if (worker_attach_retry(worker, &error))
		error = session_begin(worker->session, NULL);
	return error;
}

/* (H33) Is it the process that this worker was started for? From here on it is: each stop refuses
 * another program. */
static struct error *check_process(const struct proc *proc, const struct wire_message *message)
{
	uint64_t generation = wire_get_number(message, WIRE_GENERATION, 0);

	if (proc->start_time != wire_get_number(message, WIRE_START_TIME, 0))
		return error_new(ERROR_GONE, "process %d has ended", proc->pid);
	if (generation && proc->generation != generation)
		return error_new(ERROR_GONE, "process %d has begun another program", proc->pid);
	return NULL;
}

/*
 * Gives up rights before anything of the target is looked at. Leftovers of a killed dyntrace may
 * need new files in its trace, whose path is in the target's memory: a worker with its target's
 * rights gains nothing by that, but a root worker of a process that isn't root's would.
 */
static struct error *confine_first(const struct worker *worker, bool *ret_foreign)
{
	struct thread_status status = { 0 };
	struct error *error = proc_status_read(worker->pid, worker->pid, &status);

	if (error)
		return error;
	*ret_foreign = geteuid() == 0 && status.uid != 0;
	return confine_worker(*ret_foreign ? CONFINE_WHOLE : CONFINE_FIRST);
}

static struct error *attach(struct worker *worker, const struct wire_message *message)
{
	struct session_options options = {
		.output = "",
		.buffer_size = wire_get_number(message, WIRE_BUFFER_SIZE, DT_POOL_DEFAULT),
		.follow_fork = true,
		.mode = (enum session_mode)wire_get_number(message, WIRE_MODE, SESSION_DISCARD),
		.limits = { .max_size = wire_get_number(message, WIRE_MAX_SIZE, 0),
			    .max_files = (uint32_t)wire_get_number(message, WIRE_MAX_FILES, 0),
			    .rotate_ns = wire_get_number(message, WIRE_ROTATE, 0) },
		.overhead = (double)wire_get_number(message, WIRE_OVERHEAD, 0) / 1e6,
		.tracepoints_max = WIRE_TRACEPOINTS_MAX,
		.stopped = !wire_get_number(message, WIRE_RECORDING, 1),
		.guise = worker->guise,
		.open_log = open_log,
		.open_context = worker,
		.notify = worker_events_notice,
		.notify_context = worker
	};
	const char *guise = wire_get_text(message, WIRE_GUISE);
	bool foreign = false;
	struct error *error = confine_first(worker, &foreign);

	assert(!worker->session);
	if (!error)
		error = proc_open_asking(worker->pid, worker->asker.ask ? &worker->asker : NULL,
					 &worker->proc);
	if (!error)
		worker->proc->names_no_files = foreign;
	snprintf(worker->guise, sizeof(worker->guise), "%s", guise ? guise : "");
	if (!error)
		error = check_process(worker->proc, message);
	worker->mode = options.mode;
	worker->keep = wire_get_number(message, WIRE_SNAPSHOTS_KEPT, WORKER_SNAPSHOTS_KEPT);
	if (!error)
		error = session_create(worker->proc, &options, &worker->session);
	if (!error && options.overhead > 0)
		error = budget_enable(worker->session);
	if (!error)
		error = begin(worker, message);
	if (error) {
		session_destroy(take_ptr(&worker->session));
		trace_dir_free(take_ptr(&worker->directory));
		worker->over = true;
	}
	return error;
}

struct error *worker_attach_configure(struct worker *worker, const struct wire_message *message,
				      struct worker_reply *reply)
{
	if (!worker->session) {
		struct error *error = attach(worker, message);

		reply->time = worker_events_wall_ns();
		return error;
	}
	if (worker->settled) /* else the supervisor died before it had replayed the journal */
		reply->state = "again";
	return NULL;
}

struct error *worker_attach_confirm(struct worker *worker, const struct wire_message *message,
				    struct worker_reply *reply)
{
	struct error *error = worker_commands_not_attached(worker);

	(void)message;
	if (!error && worker->cleaned) { /* for the first client */
		worker_commands_note(worker, reply, worker->cleaned);
		free(worker->cleaned);
		worker->cleaned = NULL;
	}
	return error;
}

/* ---- detach --------------------------------------------------------------------------------- */

struct error *worker_attach_leave(struct worker *worker, struct session_summary *ret_summary)
{
	assert(worker->session);
	struct error *error = session_end(worker->session, ret_summary);

	worker_events_tell_lines(worker, ret_summary->lines_left_out, ret_summary->lines_why);
	worker_events_tell_last_losses(worker);
	session_destroy(take_ptr(&worker->session));
	trace_dir_free(take_ptr(&worker->directory));
	return error;
}

struct error *worker_attach_detach(struct worker *worker, const struct wire_message *message,
				   struct worker_reply *reply)
{
	struct session_summary summary = { 0 };
	struct error *error = worker_commands_not_attached(worker);

	(void)message;
	if (!error)
		error = worker_attach_leave(worker, &summary);
	if (!error && summary.probes_left)
		error = error_new(ERROR_FAILED, "%s", summary.why);
	else if (!error && summary.left)
		worker_commands_note(worker, reply, summary.why);
	if (!error && summary.lines_left_out) {
		char text[160];

		worker_events_describe_lines(summary.lines_left_out, summary.lines_why, text,
					     sizeof(text));
		worker_commands_note(worker, reply, text);
	}
	worker_events_tell(worker, "detached", NULL);
	worker->over = true;
	return error;
}
