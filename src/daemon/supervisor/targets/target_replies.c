/*
 * target_replies.c - messages of a target's worker.
 */
#include "target_replies.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/events.h"
#include "journal.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "target_worker.h"
#include "worker_calls.h"

static void attach_done(struct target *target, const struct wire_message *reply)
{
	const char *state = wire_get_text(reply, WIRE_STATE);
	bool again = state && !strcmp(state, "again");

	target->attached = true;
	if (!again && !target->announced && !target->entries.count)
		events_tell_at(target->supervisor, wire_get_number(reply, WIRE_TIME, 0),
			       target->pid, target->process.name, "attached", target->loaded);
	target->announced = true;
	if (target->leaves_again) {
		target->leaves_again = false;
		return worker_calls_detach(target);
	}
	if (log_share_take(target->supervisor, target->asker))
		log_line("process %d (%s): %s", target->pid, target->process.name,
			 again ? "found again" : "attached");
	if (!again) {
		target->replay = 0;
		worker_calls_replay(target);
	}
	journal_write(target);
}

/* Root must see if a killed worker's events or probes couldn't be cared for. */
static void log_settled(struct target *target, const struct error *error)
{
	bool may = error ? log_share_take_failure(target->supervisor, target->asker) :
			   log_share_take(target->supervisor, target->asker);

	if (may)
		log_line("process %d (%s): settled%s%s", target->pid, target->process.name,
			 error ? ": " : "", error ? error_text(error) : "");
}

/* The answer to a call of the supervisor's own. */
static void own_call_done(struct target *target, const struct worker_call *call,
			  const struct wire_message *reply)
{
	struct error *error = wire_reply_error(reply);

	target->gone = call->kind == WIRE_DETACH;
	if (call->kind == WIRE_SETTLE)
		log_settled(target, error);
	if (call->kind == WIRE_REGISTER && error && error_kind(error) == ERROR_GONE)
		worker_calls_detach(target);
	if (call->kind != WIRE_CONFIGURE) {
		error_free(error);
		return;
	}
	if (!error)
		return attach_done(target, reply);
	if (log_share_take(target->supervisor, target->asker))
		log_line("process %d (%s): not attached: %s", target->pid, target->process.name,
			 error_text(error));
	target->gone = true;
	target_fail_calls(target, target->calls.count, error);
	error_free(error);
}

static void request_done(struct target *target, const struct worker_call *call,
			 const struct wire_message *reply)
{
	struct request *request = call->request;
	struct error *error = wire_reply_error(reply);

	assert(request->calls > 0); /* D3 */
	if (!error && call->entry == SIZE_MAX)
		journal_note(target, request, reply);
	if (request->kind == WIRE_DETACH)
		target->gone = true;
	request_note(request, error);
	request_close_call(request);
	if (call->entry != SIZE_MAX)
		worker_calls_replay(target);
}

/* The first tracepoint has made the trace, or the trace of the worker before goes on (D7). */
static void note_trace(struct target *target, const char *trace)
{
	const struct promise *promise = trace_keeper_find(target, trace);

	assert(!target->trace);
	if (!promise && !target->found_again)
		return target_worker_distrust(target,
					      "names a directory that no keeper was started for");
	if (!promise)
		return; /* the supervisor before died when the directory was made */
	target->trace = strdup(trace);
	target->owner = promise->who;
	free(take_ptr(&target->old_trace));
	journal_write(target);
}

static void handle_reply(struct target *target, const struct wire_message *reply)
{
	const char *trace = wire_get_text(reply, WIRE_OUTPUT);
	struct worker_call call;

	if (!target->sent || target->calls.items[0].sequence != reply->sequence)
		return target_worker_distrust(target, "answers a call that wasn't made");
	if (trace && !target->trace)
		note_trace(target, trace);
	if (target->distrusted)
		return; /* its calls fail when it has ended */
	worker_calls_take_answered(target, &call);
	target->tracepoints =
		(size_t)wire_get_number(reply, WIRE_TRACEPOINT_COUNT, target->tracepoints);
	trace_keeper_forget(target, target->trace ? UINT32_MAX : call.sequence);
	if (call.request)
		request_done(target, &call, reply);
	else
		own_call_done(target, &call, reply);
	worker_calls_go_on(target);
}

void target_replies_handle(struct target *target, const struct wire_message *message)
{
	assert(target->has_worker);
	struct request *request = target->sent ? target->calls.items[0].request : NULL;

	if (message->kind == WIRE_REPLY)
		handle_reply(target, message);
	else if (message->kind == WIRE_EVENT)
		events_forward(target, message);
	else if (message->kind == WIRE_ITEM || message->kind == WIRE_NOTE)
		request_forward(request, message, target->pid);
}
