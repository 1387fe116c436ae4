/*
 * worker_tracepoints.c - requests that change tracepoints.
 */
#include "worker_tracepoints.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/session/messages/tracepoint_message.h"
#include "daemon/keeper/keeper.h"
#include "worker_attach.h"
#include "worker_snapshots.h"

static void name_items(struct worker *worker, const struct worker_reply *reply)
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

/* Takes the keeper that came with the request: the first tracepoint's makes the trace, and each
 * that names a log opens it. */
static struct error *use_keeper(struct worker *worker, const struct tracepoint_spec *spec)
{
	int fd = channel_take_fd(&worker->channel);
	struct trace_dir *directory = NULL;
	bool is_log = spec->tracer && !strcmp(spec->tracer, "log") && spec->tracer_argument;

	if (fd < 0)
		return is_log ? error_new(ERROR_FAILED, "%s: no keeper opens it",
					  spec->tracer_argument) :
				NULL;
	assert(worker->session && worker->log < 0);
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

/* Tells of children that were forked before and don't have the tracepoint. */
static void note_children(struct worker *worker, const struct worker_reply *reply)
{
	const char *why;
	size_t count = session_children_left(worker->session, &why);
	char text[384];

	if (!count)
		return;
	snprintf(text, sizeof(text), "%zu process%s forked from %d earlier %s without it (%s)",
		 count, count == 1 ? "" : "es", worker->pid, count == 1 ? "stays" : "stay", why);
	worker_commands_note(worker, reply, text);
}

/* Says what a hit costs where only a trap fits. */
static void note_traps(struct worker *worker, const struct worker_reply *reply)
{
	const char *first = NULL;
	size_t count = 0, index;
	char text[256];

	for (size_t i = 0; i < reply->names.count; i++) {
		_cleanup_error_ struct error *none =
			session_find(worker->session, reply->names.items[i], &index);
		const char *how = none ? NULL : session_tracepoint(worker->session, index).how;

		if (!how || strcmp(how, "trap"))
			continue;
		first = count++ ? first : reply->names.items[i];
	}
	if (!count)
		return;
	if (count == 1)
		snprintf(text, sizeof(text),
			 "%.100s is placed by a trap, for want of room: each hit is a signal, about "
			 "3 us, some hundred times a jump",
			 first);
	else
		snprintf(text, sizeof(text),
			 "%zu tracepoints, such as %.100s, are placed by a trap, for want of room: "
			 "each hit is a signal, about 3 us, some hundred times a jump",
			 count, first);
	worker_commands_note(worker, reply, text);
}

/* Says if nobody records the events of LTTng. */
static void note_unheard(struct worker *worker, const struct worker_reply *reply)
{
	char text[1024];

	if (session_unheard(worker->session, &reply->names, text, sizeof(text)))
		worker_commands_note(worker, reply, text);
}

/* The names of one kind in a request of the journal; the texts are the message's. */
static struct error *names_before(const struct wire_message *message, enum wire_tag tag,
				  struct name_list *ret_names)
{
	struct wire_value value;
	bool enough = true;

	for (size_t at = 0; enough && wire_next(message, &at, &value);)
		enough = value.tag != tag || vec_push(ret_names, (char *)value.text);
	return enough ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* If the triggers can't be added, the tracepoints go again: all or nothing. */
static struct error *add_triggers(struct worker *worker, const struct tracepoint_spec *spec,
				  const struct wire_message *message, struct worker_reply *reply)
{
	struct name_list before = { 0 };
	size_t removed;
	struct error *error = names_before(message, WIRE_MADE_TRIGGER, &before);

	if (!error)
		error = worker_snapshots_add(worker, message, spec, &before, reply);
	for (size_t i = 0; error && i < reply->made.count; i++)
		error_free(session_remove(worker->session, reply->made.items[i], &removed));
	vec_free(&before);
	return error;
}

/* A request of the journal has the names that its tracepoints had. */
static struct error *add_as_before(struct worker *worker, const struct tracepoint_spec *spec,
				   const struct wire_message *message, struct worker_reply *reply)
{
	struct name_list before = { 0 };
	struct error *error = names_before(message, WIRE_MADE, &before);

	if (!error)
		error = session_add_as(worker->session, spec, &before, &reply->made, &reply->names);
	if (worker_attach_retry(worker, &error))
		error = session_add_as(worker->session, spec, &before, &reply->made, &reply->names);
	vec_free(&before);
	return error ? error : add_triggers(worker, spec, message, reply);
}

struct error *worker_tracepoints_add(struct worker *worker, const struct wire_message *message,
				     struct worker_reply *reply)
{
	struct tracepoint_message wish;
	struct error *error = worker_commands_not_attached(worker);

	if (error)
		return error;
	error = tracepoint_message_read(message, &wish);
	if (!error)
		error = worker_snapshots_check(worker, message);
	if (error) { /* the keeper isn't the next request's */
		int keeper = channel_take_fd(&worker->channel);

		if (keeper >= 0)
			close(keeper);
		return error;
	}
	error = use_keeper(worker, &wish.spec);
	if (!error)
		error = add_as_before(worker, &wish.spec, message, reply);
	if (worker->log >= 0)
		close(take_fd(&worker->log)); /* not used: a log writes to that file already */
	if (!error) {
		name_items(worker, reply);
		note_children(worker, reply);
		note_traps(worker, reply);
		if (!wire_get_text(message, WIRE_MADE)) /* not of the journal */
			note_unheard(worker, reply);
	}
	return error;
}

static struct error *need_name(const struct worker *worker, const struct wire_message *message)
{
	struct error *error = worker_commands_not_attached(worker);

	if (!error && !wire_get_text(message, WIRE_NAME))
		error = error_new(ERROR_USAGE, "the tracepoint's name is missing");
	return error;
}

struct error *worker_tracepoints_remove(struct worker *worker, const struct wire_message *message,
					struct worker_reply *reply)
{
	struct error *error = need_name(worker, message);
	size_t count;

	(void)reply;
	if (!error)
		error = session_remove(worker->session, wire_get_text(message, WIRE_NAME), &count);
	return error ? error : worker_snapshots_follow(worker);
}

struct error *worker_tracepoints_switch(struct worker *worker, const struct wire_message *message,
					struct worker_reply *reply)
{
	struct error *error = need_name(worker, message);
	size_t count;

	(void)reply;
	if (!error)
		error = session_switch(worker->session, wire_get_text(message, WIRE_NAME),
				       message->kind == WIRE_ENABLE, &count);
	return error ? error : worker_snapshots_follow(worker);
}

struct error *worker_tracepoints_change_context(struct worker *worker,
						const struct wire_message *message,
						struct worker_reply *reply)
{
	struct error *(*change)(struct session *, const char *, const char *, size_t *) =
		message->kind == WIRE_CONTEXT ? session_add_context : session_remove_context;
	struct error *error = need_name(worker, message);
	const char *type = wire_get_text(message, WIRE_CONTEXT_TYPE);
	size_t count;

	(void)reply;
	if (!error && !type)
		error = error_new(ERROR_USAGE, "the context's type is missing");
	return error ? error :
		       change(worker->session, wire_get_text(message, WIRE_NAME), type, &count);
}
