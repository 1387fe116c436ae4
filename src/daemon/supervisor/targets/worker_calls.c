/*
 * worker_calls.c - requests on their way to a target's worker.
 */
#include "worker_calls.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/events.h"
#include "journal.h"
#include "daemon/supervisor/requests/owners.h"
#include "daemon/supervisor/requests/permissions.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "target_worker.h"
#include "trace_keeper.h"

#define CALLS_OF_USER_MAX 32 /* per target, for users other than root */

/* ---- the order of calls (D9) ----------------------------------------------------------------- */

/* A registration is answered behind the tracepoints that waited for the process. */
static bool goes_first(const struct target *target, const struct worker_call *call)
{
	return call->request && call->kind != WIRE_REGISTER &&
	       supervisor_is_master(target->supervisor, call->request->who.uid);
}

static bool is_clients(const struct worker_call *call)
{
	return call->request && call->entry == SIZE_MAX;
}

/* Calls of the supervisor's own and of the journal go out at once; of the others those of root
 * before those that wait. */
static size_t place_of(const struct target *target, const struct worker_call *call)
{
	size_t at = target->sent;

	if (!is_clients(call))
		return at;
	if (!goes_first(target, call))
		return target->calls.count;
	while (at < target->calls.count && goes_first(target, &target->calls.items[at]))
		at++;
	return at;
}

static bool push_call(struct target *target, struct request *request, enum wire_kind kind,
		      size_t entry)
{
	struct worker_call call = { .request = request,
				    .kind = kind,
				    .since = now_ns(),
				    .entry = entry };
	size_t at = place_of(target, &call);

	assert(target->has_worker && at >= target->sent && at <= target->calls.count);
	if (!vec_push(&target->calls, call))
		return false;
	memmove(&target->calls.items[at + 1], &target->calls.items[at],
		(target->calls.count - 1 - at) * sizeof(call));
	target->calls.items[at] = call;
	if (request)
		request_open_call(request);
	supervisor_sweep_soon(target->supervisor);
	return true;
}

/* Counts the first call that waits as sent, with the next number. */
static void note_sent(struct target *target)
{
	assert(target->sent < target->calls.count);
	struct worker_call *call = &target->calls.items[target->sent++];

	call->sequence = ++target->sequence;
	call->sent_at = now_ns();
}

static struct worker_call take_call(struct target *target, size_t at)
{
	struct worker_call call = target->calls.items[at];

	memmove(&target->calls.items[at], &target->calls.items[at + 1],
		(--target->calls.count - at) * sizeof(call));
	return call;
}

void worker_calls_take_answered(struct target *target, struct worker_call *ret_call)
{
	assert(target->sent);
	target->heard_at = now_ns();
	target->sent--;
	*ret_call = take_call(target, 0);
}

/* (D13) */
static bool is_replaying(const struct target *target)
{
	return target->replay != SIZE_MAX || (!target->attached && target->entries.count);
}

/* One request of a client is with the worker; behind it nothing but root's waits for long. */
static bool may_send_next(const struct target *target)
{
	if (is_replaying(target))
		return false;
	if (!target->has_worker || target->leaving || target->ending || target->distrusted ||
	    target->gone || target->sent == target->calls.count)
		return false;
	if (!goes_first(target, &target->calls.items[target->sent]))
		return !target->sent;
	for (size_t i = 0; i < target->sent; i++) {
		if (is_clients(&target->calls.items[i]))
			return false;
	}
	return true;
}

/* ---- sending --------------------------------------------------------------------------------- */

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
		note_sent(target);
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

/* A worker that looks already needn't be asked again: a stopped one would be asked without end. */
void worker_calls_look(struct target *target)
{
	for (size_t i = 0; i < target->sent; i++) {
		if (!target->calls.items[i].request && target->calls.items[i].kind == WIRE_REGISTER)
			return;
	}
	if (!target->leaving)
		send_plain(target, WIRE_REGISTER);
}

/* Requests that wait for the worker are bounded, too (D6). */
static struct error *check_queue(const struct target *target, const struct request *request)
{
	size_t own = 0;

	for (size_t i = 0; i < target->calls.count; i++) {
		const struct request *other = target->calls.items[i].request;

		own += other && other->who.uid == request->who.uid;
	}
	if (own < CALLS_OF_USER_MAX ||
	    supervisor_is_master(target->supervisor, request->who.uid))
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d (%s): %zu requests of user %u wait for its worker already (try again "
			 "when they are done)",
			 target->pid, target->process.name, own, request->who.uid);
}

/* What was true when the request came may have changed while it waited (D5, D8). */
static struct error *check_once_more(const struct target *target, const struct request *request)
{
	struct process now;
	struct error *error = process_read(target->pid, &now);

	if (!error)
		error = permissions_check(request, target->pid, &now);
	return error ? error : owners_check(request, target);
}

/* Others may have stopped or started the recording before root came. */
static void record_as_root_wants(struct target *target, const struct request *request)
{
	bool wanted = target->supervisor->recording;

	if (!supervisor_is_master(target->supervisor, request->who.uid) ||
	    !journal_entries_forget_switch(target))
		return;
	send_plain(target, wanted ? WIRE_START : WIRE_STOP);
	journal_write(target);
}

/* A trace of another user's is in a folder of that user, who can remove it or let it fill up, and
 * end with it the recording of all. So root's first tracepoint ends it, and begins anew (D10). */
static bool ends_others(const struct target *target, const struct request *request)
{
	return request->kind == WIRE_ADD && target->trace &&
	       supervisor_is_master(target->supervisor, request->who.uid) &&
	       !supervisor_is_master(target->supervisor, target->owner.uid);
}

/* The request waits until the worker has gone, and begins another. */
static void end_others(struct target *target, const struct request *request)
{
	char text[PATH_MAX + 100];

	snprintf(text, sizeof(text), "user %u traces the process: the trace of user %u, %s, ends",
		 request->who.uid, target->owner.uid, target->trace);
	log_line("process %d (%s): %s", target->pid, target->process.name, text);
	events_tell(target->supervisor, target->pid, target->process.name, "failed", text);
	request_tell(request, target->pid, text);
	worker_calls_detach(target);
}

/* Sends the first call that waits. */
static struct error *send_first(struct target *target)
{
	static const enum wire_tag none[] = { WIRE_NO_TAG };
	const struct worker_call *call = &target->calls.items[target->sent];
	struct request *request = call->request;
	struct wire_out out = { 0 };
	struct promise promise = { 0 };
	int keeper = -1;
	bool master = supervisor_is_master(target->supervisor, request->who.uid);
	size_t most = master ? WIRE_TRACEPOINTS_MAX : WIRE_TRACEPOINTS_MAX / 8 * 7; /* D6 */
	struct error *error = NULL;

	if (is_clients(call))
		error = check_once_more(target, request);
	if (!error && request->kind == WIRE_ADD && target->tracepoints >= most)
		error = error_new(ERROR_FAILED,
				  "process %d has %zu tracepoints already (the limit)", target->pid,
				  target->tracepoints);
	if (!error && request->kind == WIRE_ADD)
		error = trace_keeper_for(target, request, &keeper, &promise);
	if (error)
		return error;
	if (request->kind == WIRE_ADD && is_clients(call))
		record_as_root_wants(target, request);
	note_sent(target);
	trace_keeper_promise(target, &promise);
	wire_begin(&out, request->kind, target->sequence);
	wire_copy(&out, &request->message, none);
	if (request->kind == WIRE_ADD)
		wire_number(&out, WIRE_TRACEPOINT_COUNT, most);
	wire_end(&out);
	send(target, &out, keeper);
	if (request->kind == WIRE_DETACH)
		target->leaving = true;
	return NULL;
}

void worker_calls_go_on(struct target *target)
{
	while (may_send_next(target)) {
		struct request *request = target->calls.items[target->sent].request;

		if (ends_others(target, request))
			return end_others(target, request);
		struct error *error = send_first(target);
		if (!error)
			continue;
		take_call(target, target->sent);
		request_note(request, error);
		request_close_call(request);
	}
}

void worker_calls_send(struct target *target, struct request *request)
{
	struct error *error = check_queue(target, request);

	if (!error && journal_notes(request->kind))
		error = journal_entries_check_room(target, request);
	if (!error && !push_call(target, request, request->kind, SIZE_MAX))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error)
		request_note(request, error);
	else
		worker_calls_go_on(target);
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
		if (!error && !push_call(target, request, entry->kind, target->replay - 1))
			error = error_new(ERROR_FAILED, "out of memory");
		else if (!error && (error = send_first(target))) {
			take_call(target, target->sent);
			request->calls--;
		}
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
