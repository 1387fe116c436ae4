/*
 * stuck.c - workers that don't answer: stopped by somebody, waiting for a dead file server, or busy
 * for long.
 *
 * Who asked is told soon, and waits no longer; what was asked stays with the worker, is done when
 * it goes on, and counts then as if the client had gone meanwhile (D3). Only much later the worker
 * is killed, and another one takes over.
 */
#include <signal.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "daemon/base/log.h"
#include "supervisor.h"

#define STOPPED_NS 2000000000ULL
#define SECOND_NS 1000000000ULL

/* How long a client waits for what a worker that isn't stopped does. */
static uint64_t patience(enum wire_kind kind)
{
	static const enum wire_kind long_ones[] = { WIRE_ATTACH,  WIRE_ADD,  WIRE_REMOVE,
						    WIRE_CONTEXT, WIRE_LOAD, WIRE_UNLOAD };

	for (size_t i = 0; i < sizeof(long_ones) / sizeof(long_ones[0]); i++) {
		if (long_ones[i] == kind)
			return CALL_SECONDS;
	}
	return QUICK_SECONDS;
}

bool target_is_stopped(const struct target *target)
{
	struct thread_stat stat;

	if (!target->worker)
		return false;
	_cleanup_error_ struct error *gone =
		proc_status_read_stat(target->worker, target->worker, &stat);
	return !gone && (stat.state == 'T' || stat.state == 't');
}

/* Whoever waits for it: itself, or what it is a part of. */
static struct request *waiting_request(const struct call *call)
{
	struct request *request = call->request;

	while (request && request->parent)
		request = request->parent;
	return request && request->peer ? request : NULL;
}

static void tell_waiting(struct target *target, const struct call *call, bool stopped,
			 uint64_t waited)
{
	struct request *request = waiting_request(call);

	if (!request || (!stopped && waited < patience(call->kind) * SECOND_NS))
		return;
	if (stopped)
		request_leave(
			request,
			error_new(
				ERROR_FAILED,
				"process %d (%s): its worker is stopped; what you asked is done when it goes on ('kill -CONT %d')",
				target->pid, target->process.name, target->worker));
	else
		request_leave(
			request,
			error_new(
				ERROR_FAILED,
				"process %d (%s): its worker hasn't answered for %llu s; what you asked is done when it goes on",
				target->pid, target->process.name,
				(unsigned long long)(waited / SECOND_NS)));
}

/* What it was told to do is done by the next one: also to let the process go. */
static void replace(struct target *target)
{
	log_line("process %d: its worker has not answered '%s' for %d s: killed", target->pid,
		 wire_kind_name(target->calls.items[0].kind), CALL_SECONDS);
	if (target->worker)
		kill(target->worker, SIGKILL);
	target->leaves_again = target->leaving;
	target->leaving = false;
	target_worker_ended(target);
}

void targets_sweep(struct supervisor *supervisor, uint64_t now, bool *ret_again)
{
	for (size_t i = supervisor->targets.count; i-- > 0;) {
		struct target *target = supervisor->targets.items[i];
		uint64_t waited = target->calls.count ? now - target->calls.items[0].since : 0;

		if (!target->calls.count)
			continue;
		*ret_again = true;
		bool stopped = waited > STOPPED_NS && target_is_stopped(target);
		for (size_t j = 0; j < target->calls.count; j++)
			tell_waiting(target, &target->calls.items[j], stopped,
				     now - target->calls.items[j].since);
		if (waited > CALL_SECONDS * SECOND_NS)
			replace(target);
	}
}
