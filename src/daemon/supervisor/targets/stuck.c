/*
 * stuck.c - workers that don't answer: stopped by a signal, waiting for a dead file server, or busy
 * for long.
 *
 * The client gets an answer soon, and waits no longer. Its request stays with the worker, is done
 * when the worker goes on, and counts then as if the client had gone meanwhile (D3). Only much
 * later the worker is killed, and another one takes over.
 *
 * A worker that does one request after the other isn't stuck, however many are before a client's:
 * time counts from its last answer, or from its start. Time in which the worker waits for a
 * processor doesn't count: on a machine with much else to do it would be replaced in the middle of
 * a long request, again and again.
 */
#include "stuck.h"

#include <assert.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/requests/request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "target_worker.h"

#define CALL_SECONDS 120 /* a worker that takes longer is replaced */
#define QUICK_SECONDS 15 /* the same for clients, and calls that should be quick */
#define STOPPED_NS 2000000000ULL
#define SECOND_NS 1000000000ULL

/* How long the worker has been silent to somebody who waits since that time. */
static uint64_t silence(const struct target *target, uint64_t since, uint64_t now)
{
	uint64_t from = since > target->heard_at ? since : target->heard_at;

	return now > from ? now - from : 0;
}

/* How much of this silence of the worker's was a wait for a processor. */
static uint64_t queued(struct target *target, uint64_t since)
{
	uint64_t from = since > target->heard_at ? since : target->heard_at;
	uint64_t all = target_worker_queued(target);

	if (target->silent_since != from) {
		target->silent_since = from;
		target->queued_before = all;
	}
	return all > target->queued_before ? all - target->queued_before : 0;
}

/* Seconds that a client waits for a worker that isn't stopped. */
static uint64_t patience(enum wire_kind kind)
{
	static const enum wire_kind long_ones[] = { WIRE_ATTACH,  WIRE_ADD,	   WIRE_REMOVE,
						    WIRE_CONTEXT, WIRE_NO_CONTEXT, WIRE_LOAD,
						    WIRE_UNLOAD,  WIRE_DETACH };

	for (size_t i = 0; i < sizeof(long_ones) / sizeof(long_ones[0]); i++) {
		if (long_ones[i] == kind)
			return CALL_SECONDS;
	}
	return QUICK_SECONDS;
}

bool stuck_worker_is_stopped(const struct target *target)
{
	struct thread_stat stat;

	if (!target->worker)
		return false;
	_cleanup_error_ struct error *gone =
		proc_status_read_stat(target->worker, target->worker, &stat);
	return !gone && (stat.state == 'T' || stat.state == 't');
}

/* The request of a connected client that waits for the call: its own, or that one's parent. */
static struct request *waiting_request(const struct worker_call *call)
{
	struct request *request = call->request;

	while (request && request->parent)
		request = request->parent;
	return request && request->peer ? request : NULL;
}

/* A client of a quick call wants to know soon, whatever the worker waits for. */
static void tell_waiting(struct target *target, const struct worker_call *call, bool stopped,
			 uint64_t waited, uint64_t in_queue)
{
	struct request *request = waiting_request(call);
	uint64_t limit = patience(call->kind) * SECOND_NS;

	if (limit > QUICK_SECONDS * SECOND_NS)
		limit += in_queue;
	if (!request || (!stopped && waited < limit))
		return;
	if (stopped)
		request_leave(
			request,
			error_new(
				ERROR_FAILED,
				"process %d (%s): its worker is stopped: the request is done when it goes on ('kill -CONT %d')",
				target->pid, target->process.name, target->worker));
	else
		request_leave(
			request,
			error_new(
				ERROR_FAILED,
				"process %d (%s): its worker hasn't answered for %llu s: the request is done when it goes on",
				target->pid, target->process.name,
				(unsigned long long)(waited / SECOND_NS)));
}

/* The next worker does what this one was asked to, also to detach. */
static void replace(struct target *target)
{
	assert(target->calls.count);
	log_line("process %d: its worker hasn't answered '%s' for %d s: killing it", target->pid,
		 wire_kind_name(target->calls.items[0].kind), CALL_SECONDS);
	target->leaves_again = target->leaving;
	target->leaving = false;
	target_worker_end(target);
}

void stuck_sweep(struct supervisor *supervisor, uint64_t now, bool *ret_again)
{
	for (size_t i = supervisor->targets.count; i-- > 0;) {
		struct target *target = supervisor->targets.items[i];
		if (!target->calls.count)
			continue;
		uint64_t sent_at = target->calls.items[0].sent_at;
		uint64_t waited = target->sent ? silence(target, sent_at, now) : 0;
		uint64_t in_queue = target->sent ? queued(target, sent_at) : 0;

		*ret_again = true;
		bool stopped = waited > STOPPED_NS && stuck_worker_is_stopped(target);
		for (size_t j = 0; j < target->calls.count; j++)
			tell_waiting(target, &target->calls.items[j], stopped,
				     silence(target, target->calls.items[j].since, now), in_queue);
		if (waited > CALL_SECONDS * SECOND_NS + in_queue && !target->ending)
			replace(target);
	}
}
