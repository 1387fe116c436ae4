/*
 * worker_commands.c - what a worker does with each message: one table.
 *
 * Every answer has the number of tracepoints and, once it exists, the trace's directory, so that
 * the supervisor needn't ask.
 */
#include "worker_commands.h"

#include <assert.h>

#include "control/base/cleanup.h"
#include "daemon/keeper/keeper.h"
#include "worker_attach.h"
#include "worker_list.h"
#include "worker_snapshots.h"
#include "worker_tracepoints.h"

#define NAMES_IN_REPLY 1000 /* of more the journal knows none */

typedef struct error *(*command_fn)(struct worker *worker, const struct wire_message *message,
				    struct worker_reply *reply);

void worker_commands_note(struct worker *worker, const struct worker_reply *reply, const char *text)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_NOTE, reply->sequence);
	wire_text(&out, WIRE_NOTE_TEXT, text);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

struct error *worker_commands_not_attached(const struct worker *worker)
{
	return worker->session ? NULL :
				 error_new(ERROR_FAILED, "process %d isn't attached", worker->pid);
}

/* ---- recording ------------------------------------------------------------------------------ */

static struct error *do_recording(struct worker *worker, const struct wire_message *message,
				  struct worker_reply *reply)
{
	struct error *error = worker_commands_not_attached(worker);

	(void)reply;
	return error ? error : session_recording(worker->session, message->kind == WIRE_START);
}

static struct error *do_flush(struct worker *worker, const struct wire_message *message,
			      struct worker_reply *reply)
{
	struct error *error = worker_commands_not_attached(worker);

	(void)message;
	(void)reply;
	return error ? error : session_flush(worker->session);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static struct error *do_load(struct worker *worker, const struct wire_message *message,
			     struct worker_reply *reply)
{
	const char *library = wire_get_text(message, WIRE_LIBRARY);
	struct error *error = worker_commands_not_attached(worker);

	(void)reply;
	if (!error && !library)
		error = error_new(ERROR_USAGE, "the library is missing");
	if (error)
		return error;
	return message->kind == WIRE_LOAD ? session_load(worker->session, library) :
					    session_unload(worker->session, library);
}

static struct error *do_list(struct worker *worker, const struct wire_message *message,
			     struct worker_reply *reply)
{
	(void)reply;
	return worker_list_begin(worker, message);
}

/* Answers come in order: everything before is done. Fails if the process has begun another
 * program. */
static struct error *do_register(struct worker *worker, const struct wire_message *message,
				 struct worker_reply *reply)
{
	struct error *error = worker_commands_not_attached(worker);

	(void)message;
	(void)reply;
	return error ? error : session_modules_changed(worker->session);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const command_fn commands[WIRE_KIND_COUNT] = {
	[WIRE_REGISTER] = do_register,
	[WIRE_CONFIGURE] = worker_attach_configure,
	[WIRE_SETTLE] = worker_attach_settle,
	[WIRE_ATTACH] = worker_attach_confirm,
	[WIRE_DETACH] = worker_attach_detach,
	[WIRE_TRACEPOINTS] = do_list,
	[WIRE_ADD] = worker_tracepoints_add,
	[WIRE_REMOVE] = worker_tracepoints_remove,
	[WIRE_ENABLE] = worker_tracepoints_switch,
	[WIRE_DISABLE] = worker_tracepoints_switch,
	[WIRE_CONTEXT] = worker_tracepoints_change_context,
	[WIRE_NO_CONTEXT] = worker_tracepoints_change_context,
	[WIRE_START] = do_recording,
	[WIRE_STOP] = do_recording,
	[WIRE_FLUSH] = do_flush,
	[WIRE_SNAPSHOT] = worker_snapshots_do,
	[WIRE_LOAD] = do_load,
	[WIRE_UNLOAD] = do_load,
};

static void send_reply(struct worker *worker, const struct worker_reply *reply,
		       const struct error *error)
{
	struct wire_out out = { 0 };

	wire_begin_reply(&out, reply->sequence, error);
	for (size_t i = 0; i < reply->made.count && reply->made.count <= NAMES_IN_REPLY; i++)
		wire_text(&out, WIRE_MADE, reply->made.items[i]);
	for (size_t i = 0; i < reply->triggers.count && reply->made.count <= NAMES_IN_REPLY; i++)
		wire_text(&out, WIRE_MADE_TRIGGER, reply->triggers.items[i]);
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

void worker_commands_go_on(struct worker *worker)
{
	struct worker_reply reply = { .sequence = worker->listing.sequence };

	if (worker_list_go_on(worker))
		send_reply(worker, &reply, NULL);
}

void worker_commands_do(struct worker *worker, const struct wire_message *message)
{
	struct worker_reply reply = { .sequence = message->sequence };
	_cleanup_error_ struct error *error = NULL;

	assert(message->kind < WIRE_KIND_COUNT); /* channel_next refuses others */
	if (commands[message->kind])
		error = commands[message->kind](worker, message, &reply);
	else
		error = error_new(ERROR_USAGE, "workers can't do '%s'",
				  wire_kind_name(message->kind));
	if (!worker->listing.active) /* else the answer comes behind the list */
		send_reply(worker, &reply, error);
	name_list_free(&reply.names);
	name_list_free(&reply.made);
	name_list_free(&reply.triggers);
}
