/*
 * worker_calls.c - requests on their way to a target's worker.
 */
#include "worker_calls.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "journal.h"
#include "daemon/supervisor/requests/permissions.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "target_worker.h"
#include "trace_keeper.h"

#define CALLS_OF_USER_MAX 32 /* per target, for users other than root */

static bool push_call(struct target *target, struct request *request, enum wire_kind kind,
		      size_t entry)
{
	struct worker_call call = { .request = request,
				    .kind = kind,
				    .sequence = ++target->sequence,
				    .since = now_ns(),
				    .entry = entry };

	assert(target->has_worker);
	if (!vec_push(&target->calls, call))
		return false;
	if (request)
		request_open_call(request);
	supervisor_sweep_soon(target->supervisor);
	return true;
}

/* The descriptor (-1: none) goes with the message. */
static void send(struct target *target, struct wire_out *out, int fd)
{
	if (fd >= 0)
		channel_send_fd(&target->channel, out, fd);
	else
		channel_send(&target->channel, out);
	wire_free(out);
	target_worker_set_events(target);
}

bool worker_calls_send_own(struct target *target, struct wire_out *out, enum wire_kind kind, int fd)
{
	if (push_call(target, NULL, kind, SIZE_MAX)) {
		send(target, out, fd);
		return true;
	}
	wire_free(out);
	if (fd >= 0)
		close(fd);
	return false;
}

/* A call without arguments. */
static bool send_plain(struct target *target, enum wire_kind kind)
{
	struct wire_out out = { 0 };

	wire_begin(&out, kind, target->sequence + 1);
	wire_end(&out);
	return worker_calls_send_own(target, &out, kind, -1);
}

void worker_calls_look(struct target *target)
{
	if (!target->leaving)
		send_plain(target, WIRE_REGISTER);
}

/* What waits for the worker is bounded, too: a user's requests don't hold up root's (D6). */
static struct error *check_queue(const struct target *target, const struct request *request)
{
	bool master = supervisor_is_master(target->supervisor, request->who.uid);
	size_t own = 0, queued = target->channel.out.bytes.length - target->channel.sent;

	for (size_t i = 0; i < target->calls.count; i++) {
		const struct request *other = target->calls.items[i].request;

		own += other && other->who.uid == request->who.uid;
	}
	/* one descriptor at a time can wait (channel.h) */
	bool full = request->kind == WIRE_ADD && target->channel.to_send >= 0;
	if (!full && (master || own < CALLS_OF_USER_MAX) &&
	    queued + request->bytes.bytes.length <= WORKER_QUEUE_MAX / (master ? 2 : 4))
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d (%s): %zu requests of user %u wait for its worker already (try again "
			 "when they are done)",
			 target->pid, target->process.name, own, request->who.uid);
}

static struct error *send_request(struct target *target, struct request *request, size_t entry)
{
	static const enum wire_tag none[] = { WIRE_NO_TAG };
	struct wire_out out = { 0 };
	struct promise promise = { 0 };
	int keeper = -1;
	struct error *error = NULL;

	if (request->kind == WIRE_ADD && target->tracepoints >= WIRE_TRACEPOINTS_MAX)
		error = error_new(ERROR_FAILED,
				  "process %d has %zu tracepoints already (the limit)", target->pid,
				  target->tracepoints);
	if (!error && entry == SIZE_MAX)
		error = check_queue(target, request);
	if (!error && entry == SIZE_MAX && journal_notes(request->kind))
		error = journal_entries_check_room(target, request);
	if (!error && request->kind == WIRE_ADD)
		error = trace_keeper_for(target, request, &keeper, &promise);
	if (!error && !push_call(target, request, request->kind, entry))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		if (keeper >= 0)
			close(keeper);
		free(promise.path);
		return error;
	}
	trace_keeper_promise(target, &promise);
	assert(vec_last(&target->calls)->sequence == target->sequence);
	wire_begin(&out, request->kind, target->sequence);
	wire_copy(&out, &request->message, none);
	wire_end(&out);
	send(target, &out, keeper);
	return NULL;
}

void worker_calls_send(struct target *target, struct request *request)
{
	struct error *error = send_request(target, request, SIZE_MAX);

	if (error)
		request_note(request, error);
	else if (request->kind == WIRE_DETACH)
		target->leaving = true;
}

void worker_calls_detach(struct target *target)
{
	if (!target->has_worker)
		return target_free(target);
	if (target->leaving)
		return;
	target->leaving = true;
	send_plain(target, WIRE_DETACH);
}

/* ---- replay of the journal ----------------------------------------------------------------- */

/* (D5) */
static struct error *check_again(const struct target *target, const struct request *request)
{
	struct error *error = target_worker_check(target);

	return error ? error : permissions_check(request, target->pid, &target->process);
}

void worker_calls_replay(struct target *target)
{
	assert(target->has_worker && target->attached);
	while (target->replay < target->entries.count) {
		struct journal_entry *entry = &target->entries.items[target->replay++];
		struct request *request = NULL;

		if (entry->kind == WIRE_START || entry->kind == WIRE_STOP)
			continue; /* WIRE_CONFIGURE had the last of them */
		struct error *error =
			request_again(target->supervisor, entry->bytes, entry->length, &request);

		if (!error)
			error = check_again(target, request);
		if (!error)
			error = send_request(target, request, target->replay - 1);
		if (!error)
			return;
		if (request) {
			request_note(request, error);
			request_settle(request);
		} else {
			error_free(error);
		}
	}
	target->replay = SIZE_MAX;
	/* The worker may remove what the one before it left. */
	if (!target->leaving)
		send_plain(target, WIRE_SETTLE);
}
