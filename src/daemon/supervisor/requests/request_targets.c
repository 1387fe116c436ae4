/*
 * request_targets.c - the processes that a request names, and their workers.
 */
#include "request_targets.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/proc/find_process.h"
#include "control/session/state/session_options.h"
#include "daemon/supervisor/events.h"
#include "owners.h"
#include "permissions.h"
#include "daemon/supervisor/targets/process.h"
#include "request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/supervisor/targets/target.h"
#include "daemon/supervisor/targets/target_worker.h"
#include "daemon/supervisor/targets/worker_calls.h"

/* ---- names --------------------------------------------------------------------------------- */

bool request_targets_is_pid(const char *text)
{
	return *text && !text[strspn(text, "0123456789")];
}

static void describe(pid_t pid, char *ret_text, size_t size)
{
	struct process process = { 0 };
	_cleanup_error_ struct error *gone = process_read(pid, &process);

	if (!gone)
		snprintf(ret_text, size, "%s", process.name);
}

void request_targets_find(const struct supervisor *supervisor, const char *name,
			  struct tids *ret_pids)
{
	for (size_t i = 0; i < supervisor->targets.count; i++) {
		const struct target *target = supervisor->targets.items[i];

		if (process_is_called(&target->process, name))
			(void)vec_push(ret_pids, target->pid);
	}
}

/* Says why, if the process had the agent and its recording couldn't go on: the client may not know
 * yet. */
static struct error *no_agent(const struct supervisor *supervisor, pid_t pid, const char *name)
{
	const char *failure = events_failure(supervisor, pid);

	if (failure)
		return error_new(
			ERROR_NOT_FOUND,
			"process %d (%s) doesn't have the agent any more: its recording ended: %s ('dyntrace attach %d' injects it)",
			pid, name, failure, pid);
	return error_new(ERROR_NOT_FOUND,
			 "process %d (%s) doesn't have the agent ('dyntrace attach %d' injects it)",
			 pid, name, pid);
}

static struct error *find_by_name(const struct request *request, const char *name, bool starts,
				  struct tids *pids)
{
	struct error *error = NULL;

	if (!starts)
		request_targets_find(request->supervisor, name, pids);
	if (!pids->count)
		error = find_process_all(name, false, pids);
	if (!error && !pids->count)
		error = error_new(ERROR_GONE, "no process is called '%s' (%s)", name,
				  request->kind == WIRE_ADD ? "give its pid, or --wait for it" :
							      "give its pid or its program's name");
	else if (!error && pids->count > 1 && !wire_get_number(&request->message, WIRE_ALL, 0))
		error = find_process_several(name, pids, "use the pid of one, or --all", describe);
	return error;
}

static struct error *find_pids(const struct request *request, const char *name, bool starts,
			       struct tids *ret_pids)
{
	if (!request_targets_is_pid(name))
		return find_by_name(request, name, starts, ret_pids);
	unsigned long long pid = strtoull(name, NULL, 10);
	if (pid == 0 || pid > INT32_MAX)
		return error_new(ERROR_GONE, "no process %s", name);
	return vec_push(ret_pids, (pid_t)pid) ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- requests ------------------------------------------------------------------------------ */

/* The process has registered, by an agent that was linked or preloaded, and has no tracepoint: a
 * list is empty, and nothing is there to detach. */
static struct error *without_worker(const struct request *request, const struct process *process,
				    pid_t pid)
{
	if (request->kind == WIRE_TRACEPOINTS || request->kind == WIRE_DETACH)
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d (%s) has no tracepoints yet ('dyntrace add %d:LOC' adds one)",
			 pid, process->name, pid);
}

/* A process that is being detached gets another worker, and may get another mode. */
static struct error *start_worker(const struct request *request, pid_t pid,
				  const struct process *process, struct target **target)
{
	bool is_attached = *target && (*target)->has_worker && !(*target)->leaving;
	struct target_mode mode;
	struct error *error = target_mode_choose(request->supervisor, is_attached ? *target : NULL,
						 process, &request->who, &request->message, &mode);

	return error ? error : target_worker_start(request->supervisor, pid, process,
						   request->who.uid, &mode, target);
}

static struct error *ask_one(struct request *request, pid_t pid, bool starts)
{
	struct target *target = target_find(request->supervisor, pid);
	struct process process;
	struct error *error = process_read(pid, &process);

	if (!error)
		error = permissions_check(request, pid, &process);
	if (!error && !starts && !(target && target->has_worker))
		error = target ? without_worker(request, &process, pid) :
				 no_agent(request->supervisor, pid, process.name);
	if (!error && target)
		error = owners_check(request, target);
	if (!error && starts)
		error = start_worker(request, pid, &process, &target);
	assert(error || !starts || target->has_worker);
	if (!error && target && target->has_worker)
		worker_calls_send(target, request);
	return error;
}

void request_targets_ask_again(struct request *request, pid_t pid)
{
	struct error *error = ask_one(request, pid, true);

	if (error)
		request_note(request, error);
}

void request_targets_ask(struct request *request, bool starts)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	struct tids pids = { 0 };

	if (!name)
		return request_note(request, error_new(ERROR_USAGE, "the target is missing"));
	struct error *error = find_pids(request, name, starts, &pids);
	if (error)
		request_note(request, error);
	for (size_t i = 0; i < pids.count && !error; i++) {
		struct error *failed = ask_one(request, pids.items[i], starts);

		if (failed)
			request_note(request, failed);
	}
	vec_free(&pids);
}

/* A snapshot of all means all that are flight recorders. */
static bool is_meant(const struct request *request, const struct target *target)
{
	return request->kind != WIRE_SNAPSHOT || target->mode.mode == SESSION_OVERWRITE;
}

void request_targets_ask_all(struct request *request)
{
	struct supervisor *supervisor = request->supervisor;
	bool has_any = false;

	for (size_t i = supervisor->targets.count; i-- > 0;) {
		struct target *target = supervisor->targets.items[i];
		struct process now;

		if (!is_meant(request, target))
			continue;
		has_any = true;
		_cleanup_error_ struct error *no = process_read(target->pid, &now);

		if (!no)
			no = permissions_check(request, target->pid, &now);
		struct error *others = no ? NULL : owners_check(request, target);

		if (others)
			request_note(request, others);
		else if (!no && target->has_worker)
			worker_calls_send(target, request);
	}
	if (!has_any && request->kind == WIRE_SNAPSHOT && supervisor->targets.count)
		request_note(request, error_new(ERROR_FAILED,
						"no process is recorded in overwrite mode ('dyntrace "
						"attach --mode overwrite TARGET' begins one)"));
}
