/*
 * worker_commands.c - what a worker does with each message: one table.
 *
 * Every answer has the number of tracepoints and, once it exists, the trace's directory, so that
 * the supervisor needn't ask.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/session/takeover/takeover.h"
#include "confine.h"
#include "daemon/keeper/keeper.h"
#include "worker.h"

#define NAMES_IN_REPLY 1000 /* more are told as items only */

struct reply {
	uint32_t sequence;
	struct name_list names; /* that were made */
	const char *state;
	uint64_t time; /* when it was done, if that is told later; 0: it isn't */
};

typedef struct error *(*command_fn)(struct worker *worker, const struct wire_message *message,
				    struct reply *reply);

/* ---- small things to say --------------------------------------------------------------------- */

static void note(struct worker *worker, const struct reply *reply, const char *text)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_NOTE, reply->sequence);
	wire_text(&out, WIRE_NOTE_TEXT, text);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

static struct error *not_attached(const struct worker *worker)
{
	return worker->session ? NULL :
				 error_new(ERROR_FAILED, "process %d isn't attached", worker->pid);
}

/* ---- in and out ------------------------------------------------------------------------------ */

/* session_options.open_log: what the client's keeper has opened. The target's own output is its
 * user's, as we are. */
static int open_log(void *context, const char *file)
{
	struct worker *worker = context;

	return file ? take_fd(&worker->log) : -1;
}

static void tell_cleaned(struct worker *worker, const struct takeover *takeover)
{
	char text[TAKEOVER_TEXT];

	if (!takeover->found)
		return;
	takeover_describe(worker->proc, takeover, text);
	free(worker->cleaned);
	worker->cleaned = strdup(text);
	worker_tell(worker, "cleaned", text);
}

/* The directory of the trace that a worker that was killed was writing, if the supervisor knows it. */
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
		error = error_wrap(take_ptr(&error),
				   "the trace can't be gone on with: another will be begun");
		worker_tell(worker, "lost", error_text(error));
		trace_dir_free(directory);
		return;
	}
	worker->directory = directory;
}

/* What a worker, or a dyntrace without a daemon, that was killed has left: it is gone on with, or
 * cleaned up, and told. */
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

/* What was placed again is there: the rest of the old goes. */
static struct error *do_settle(struct worker *worker, const struct wire_message *message,
			       struct reply *reply)
{
	struct takeover takeover = { 0 };

	(void)message;
	(void)reply;
	struct error *error = worker->session ? takeover_settle(worker->session, &takeover) : NULL;
	tell_cleaned(worker, &takeover);
	if (worker->session)
		takeover_give_counts(worker->session);
	worker->settled = true;
	return error;
}

/* Tries once more without what a dead controller left, if that may have been in the way. */
static bool is_in_the_way(struct worker *worker, struct error **error)
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

static struct error *begin(struct worker *worker, const struct wire_message *message)
{
	struct error *error = use_leftovers(worker, message);

	if (!error)
		/* a trace that somebody else was writing may have needed new files */
		error = confine_worker();
	if (!error)
		error = session_resolve(worker->session);
	if (!error)
		error = session_begin(worker->session, NULL);
	if (is_in_the_way(worker, &error))
		error = session_begin(worker->session, NULL);
	return error;
}

static struct error *attach(struct worker *worker, const struct wire_message *message)
{
	struct session_options options = {
		.output = "",
		.buffer_size = wire_get_number(message, WIRE_BUFFER_SIZE, DT_POOL_DEFAULT),
		.follow_fork = true,
		.mode = (enum session_mode)wire_get_number(message, WIRE_MODE, SESSION_DISCARD),
		.stopped = !wire_get_number(message, WIRE_RECORDING, 1),
		.open_log = open_log,
		.open_context = worker,
		.notify = worker_notice,
		.notify_context = worker
	};
	struct error *error = proc_open(worker->pid, &worker->proc);

	if (!error && worker->proc->start_time != wire_get_number(message, WIRE_START_TIME, 0))
		error = error_new(ERROR_GONE, "process %d has ended", worker->pid);
	worker->mode = options.mode;
	if (!error)
		error = session_create(worker->proc, &options, &worker->session);
	if (!error)
		error = begin(worker, message);
	if (error) {
		session_destroy(take_ptr(&worker->session));
		trace_dir_free(take_ptr(&worker->directory));
		worker->over = true;
	}
	return error;
}

static struct error *do_configure(struct worker *worker, const struct wire_message *message,
				  struct reply *reply)
{
	if (!worker->session) {
		struct error *error = attach(worker, message);

		reply->time = worker_wall_ns();
		return error;
	}
	if (worker->settled) /* else the supervisor died before all was asked for again */
		reply->state = "again";
	return NULL;
}

static struct error *do_attach(struct worker *worker, const struct wire_message *message,
			       struct reply *reply)
{
	struct error *error = not_attached(worker);

	(void)message;
	if (!error && worker->cleaned) { /* to the first who asks */
		note(worker, reply, worker->cleaned);
		free(worker->cleaned);
		worker->cleaned = NULL;
	}
	return error;
}

struct error *worker_leave(struct worker *worker, struct session_summary *ret_summary)
{
	struct error *error = session_end(worker->session, ret_summary);

	session_destroy(take_ptr(&worker->session));
	trace_dir_free(take_ptr(&worker->directory));
	return error;
}

static struct error *do_detach(struct worker *worker, const struct wire_message *message,
			       struct reply *reply)
{
	struct session_summary summary = { 0 };
	struct error *error = not_attached(worker);

	(void)message;
	if (!error)
		error = worker_leave(worker, &summary);
	if (!error && summary.left)
		note(worker, reply, summary.why);
	worker_tell(worker, "detached", NULL);
	worker->over = true;
	return error;
}

/* ---- tracepoints ----------------------------------------------------------------------------- */

static void name_items(struct worker *worker, const struct reply *reply)
{
	for (size_t i = 0; i < reply->names.count; i++) {
		struct wire_out out = { 0 };

		wire_begin(&out, WIRE_ITEM, reply->sequence);
		wire_text(&out, WIRE_NAME, reply->names.items[i]);
		wire_end(&out);
		channel_send(&worker->channel, &out);
		wire_free(&out);
	}
}

/* Files that don't exist yet can be made by whoever has the first tracepoint; a log is opened by
 * each who names it. */
static struct error *use_keeper(struct worker *worker, const struct tracepoint_spec *spec)
{
	int fd = channel_take_fd(&worker->channel);
	struct trace_dir *directory = NULL;
	bool is_log = spec->tracer && !strcmp(spec->tracer, "log") && spec->tracer_argument;

	if (fd < 0)
		return is_log ? error_new(ERROR_FAILED, "nobody opens %s", spec->tracer_argument) :
				NULL;
	if (is_log)
		return keeper_append(fd, &worker->log);
	if (worker->directory && keeper_has_made(worker->directory)) {
		close(fd);
		return NULL;
	}
	struct error *error = keeper_dir(fd, &directory);
	if (error)
		return error;
	session_set_directory(worker->session, directory);
	trace_dir_free(worker->directory);
	worker->directory = directory;
	return NULL;
}

static size_t collect(const struct wire_message *message, enum wire_tag tag, const char **ret_texts,
		      size_t room)
{
	struct wire_value value;
	size_t count = 0;

	for (size_t at = 0; count < room && wire_next(message, &at, &value);) {
		if (value.tag == tag)
			ret_texts[count++] = value.text;
	}
	return count;
}

/* Those that were forked before and don't have it. */
static void note_children(struct worker *worker, const struct reply *reply)
{
	const char *why;
	size_t count = session_children_left(worker->session, &why);
	char text[384];

	if (!count)
		return;
	snprintf(text, sizeof(text), "%zu process%s forked from %d before %s without it (%s)",
		 count, count == 1 ? "" : "es", worker->pid, count == 1 ? "stays" : "stay", why);
	note(worker, reply, text);
}

static struct error *do_add(struct worker *worker, const struct wire_message *message,
			    struct reply *reply)
{
	static const enum tracepoint_kind kinds[] = { [WIRE_BARE] = TRACEPOINT_BARE,
						      [WIRE_ENTRY] = TRACEPOINT_ENTRY,
						      [WIRE_FUNCTION] = TRACEPOINT_FUNCTION };
	const char *contexts[WIRE_CONTEXTS_MAX];
	uint64_t shape = wire_get_number(message, WIRE_SHAPE, WIRE_BARE);
	struct tracepoint_spec spec = { .location = wire_get_text(message, WIRE_LOCATION),
					.name = wire_get_text(message, WIRE_NAME),
					.filter = wire_get_text(message, WIRE_FILTER),
					.contexts = contexts,
					.every = wire_get_number(message, WIRE_EVERY, 0),
					.first = wire_get_number(message, WIRE_FIRST, 0),
					.rate = wire_get_number(message, WIRE_RATE, 0),
					.string_max = (uint32_t)wire_get_number(message,
										WIRE_STRING_MAX, 0),
					.tracer = wire_get_text(message, WIRE_TRACER),
					.tracer_argument = wire_get_text(message, WIRE_ARGUMENT),
					.disabled = wire_get_number(message, WIRE_DISABLED, 0),
					.wait = wire_get_number(message, WIRE_WAIT, 0) };
	struct error *error = not_attached(worker);

	if (!error)
		error = use_keeper(worker, &spec);
	if (!error && (!spec.location || shape > WIRE_FUNCTION))
		error = error_new(ERROR_USAGE, "no LOC");
	if (error)
		return error;
	spec.kind = kinds[shape];
	spec.context_count = collect(message, WIRE_CONTEXT_TYPE, contexts, WIRE_CONTEXTS_MAX);
	error = session_add(worker->session, &spec, &reply->names);
	if (is_in_the_way(worker, &error))
		error = session_add(worker->session, &spec, &reply->names);
	if (worker->log >= 0)
		close(take_fd(&worker->log)); /* that file has a log already */
	if (!error) {
		name_items(worker, reply);
		note_children(worker, reply);
	}
	return error;
}

static struct error *need_name(const struct worker *worker, const struct wire_message *message)
{
	struct error *error = not_attached(worker);

	if (!error && !wire_get_text(message, WIRE_NAME))
		error = error_new(ERROR_USAGE, "no NAME");
	return error;
}

static struct error *do_remove(struct worker *worker, const struct wire_message *message,
			       struct reply *reply)
{
	struct error *error = need_name(worker, message);
	size_t count;

	(void)reply;
	return error ? error :
		       session_remove(worker->session, wire_get_text(message, WIRE_NAME), &count);
}

static struct error *do_switch(struct worker *worker, const struct wire_message *message,
			       struct reply *reply)
{
	struct error *error = need_name(worker, message);
	size_t count;

	(void)reply;
	return error ? error :
		       session_switch(worker->session, wire_get_text(message, WIRE_NAME),
				      message->kind == WIRE_ENABLE, &count);
}

static struct error *do_context(struct worker *worker, const struct wire_message *message,
				struct reply *reply)
{
	struct error *error = need_name(worker, message);
	const char *type = wire_get_text(message, WIRE_CONTEXT_TYPE);
	size_t count;

	(void)reply;
	if (!error && !type)
		error = error_new(ERROR_USAGE, "no TYPE");
	return error ? error :
		       session_add_context(worker->session, wire_get_text(message, WIRE_NAME), type,
					   &count);
}

/* ---- recording ------------------------------------------------------------------------------- */

static struct error *do_recording(struct worker *worker, const struct wire_message *message,
				  struct reply *reply)
{
	struct error *error = not_attached(worker);

	(void)reply;
	return error ? error : session_recording(worker->session, message->kind == WIRE_START);
}

static struct error *do_flush(struct worker *worker, const struct wire_message *message,
			      struct reply *reply)
{
	struct error *error = not_attached(worker);

	(void)message;
	(void)reply;
	return error ? error : session_flush(worker->session);
}

static void tell_snapshot(struct worker *worker, const struct reply *reply, const char *path)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_ITEM, reply->sequence);
	wire_text(&out, WIRE_OUTPUT, path);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

/* Beside the trace, by the same keeper. */
static struct error *take_snapshot(struct worker *worker, const struct reply *reply)
{
	struct reader_totals totals = { 0 };
	struct trace_dir *directory = NULL;
	char suffix[32];

	snprintf(suffix, sizeof(suffix), ".snapshot-%u", worker->snapshots + 1);
	struct error *error = keeper_beside(worker->directory, suffix, &directory);
	if (error)
		return error;
	worker->snapshots++;
	error = session_snapshot(worker->session, directory, NULL, &totals);
	if (!error)
		tell_snapshot(worker, reply, directory->path);
	trace_dir_free(directory);
	return error;
}

static struct error *do_snapshot(struct worker *worker, const struct wire_message *message,
				 struct reply *reply)
{
	struct error *error = not_attached(worker);

	(void)message;
	if (error)
		return error;
	if (worker->mode != SESSION_OVERWRITE)
		return error_new(
			ERROR_FAILED,
			"process %d is recorded as it runs; snapshots are for a daemon started with --mode overwrite",
			worker->pid);
	if (!worker->directory || !keeper_has_made(worker->directory))
		return error_new(
			ERROR_FAILED,
			"process %d has no tracepoint yet: there is nothing to take a snapshot of",
			worker->pid);
	return take_snapshot(worker, reply);
}

static struct error *do_load(struct worker *worker, const struct wire_message *message,
			     struct reply *reply)
{
	const char *library = wire_get_text(message, WIRE_LIBRARY);
	struct error *error = not_attached(worker);

	(void)reply;
	if (!error && !library)
		error = error_new(ERROR_USAGE, "no LIBRARY");
	if (error)
		return error;
	return message->kind == WIRE_LOAD ? session_load(worker->session, library) :
					    session_unload(worker->session, library);
}

static struct error *do_list(struct worker *worker, const struct wire_message *message,
			     struct reply *reply)
{
	(void)reply;
	return worker_list(worker, message);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Answers come in order: all that was asked before is done. Fails if the process has begun another
 * program. */
static struct error *do_register(struct worker *worker, const struct wire_message *message,
				 struct reply *reply)
{
	struct error *error = not_attached(worker);

	(void)message;
	(void)reply;
	return error ? error : session_modules_changed(worker->session);
}

static const command_fn commands[WIRE_KIND_COUNT] = {
	[WIRE_REGISTER] = do_register,
	[WIRE_CONFIGURE] = do_configure,
	[WIRE_SETTLE] = do_settle,
	[WIRE_ATTACH] = do_attach,
	[WIRE_DETACH] = do_detach,
	[WIRE_TRACEPOINTS] = do_list,
	[WIRE_ADD] = do_add,
	[WIRE_REMOVE] = do_remove,
	[WIRE_ENABLE] = do_switch,
	[WIRE_DISABLE] = do_switch,
	[WIRE_CONTEXT] = do_context,
	[WIRE_START] = do_recording,
	[WIRE_STOP] = do_recording,
	[WIRE_FLUSH] = do_flush,
	[WIRE_SNAPSHOT] = do_snapshot,
	[WIRE_LOAD] = do_load,
	[WIRE_UNLOAD] = do_load,
};

static void send_reply(struct worker *worker, const struct reply *reply, const struct error *error)
{
	struct wire_out out = { 0 };

	wire_begin_reply(&out, reply->sequence, error);
	for (size_t i = 0; i < reply->names.count && reply->names.count <= NAMES_IN_REPLY; i++)
		wire_text(&out, WIRE_NAME, reply->names.items[i]);
	wire_text(&out, WIRE_STATE, reply->state);
	if (reply->time)
		wire_number(&out, WIRE_TIME, reply->time);
	if (worker->session)
		wire_number(&out, WIRE_TRACEPOINT_COUNT, session_tracepoint_count(worker->session));
	if (worker->directory && keeper_has_made(worker->directory))
		wire_text(&out, WIRE_OUTPUT, worker->directory->path);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

void worker_do(struct worker *worker, const struct wire_message *message)
{
	struct reply reply = { .sequence = message->sequence };
	_cleanup_error_ struct error *error = NULL;

	if (commands[message->kind])
		error = commands[message->kind](worker, message, &reply);
	else
		error = error_new(ERROR_USAGE, "a worker can't do '%s'",
				  wire_kind_name(message->kind));
	send_reply(worker, &reply, error);
	name_list_free(&reply.names);
}
