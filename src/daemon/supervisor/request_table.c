#include "request_table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/proc/find_process.h"
#include "shared/program.h"
#include "daemon/base/log.h"

struct command {
	void (*run)(struct request *request);
	bool starts; /* a process without the agent gets it */
	bool needs_target;
};

static void reply_item(struct request *request, struct wire_out *out)
{
	wire_end(out);
	if (request->peer)
		peer_send(request->peer, out);
	wire_free(out);
}

/* ---- which processes ------------------------------------------------------------------------- */

static bool is_pid(const char *text)
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

/* Of the targets we have. */
static void find_targets(const struct supervisor *supervisor, const char *name, struct tids *pids)
{
	for (size_t i = 0; i < supervisor->targets.count; i++) {
		const struct target *target = supervisor->targets.items[i];

		if (process_is_called(&target->process, name))
			(void)vec_push(pids, target->pid);
	}
}

/* If it had, and its recording couldn't go on, whoever asks wasn't told yet perhaps. */
static struct error *no_agent(const struct supervisor *supervisor, pid_t pid, const char *name)
{
	const struct failure *failure = events_failure(supervisor, pid);

	if (failure)
		return error_new(
			ERROR_NOT_FOUND,
			"process %d (%s) doesn't have the agent any more, for its recording ended: %s; 'dyntrace attach %d' puts it in",
			pid, name, failure->text, pid);
	return error_new(ERROR_NOT_FOUND,
			 "process %d (%s) doesn't have the agent: 'dyntrace attach %d' puts it in",
			 pid, name, pid);
}

static struct error *find_by_name(const struct request *request, const char *name, bool starts,
				  struct tids *pids)
{
	struct error *error = NULL;

	if (!starts)
		find_targets(request->supervisor, name, pids);
	if (!pids->count)
		error = find_process_all(name, false, pids);
	if (!error && !pids->count)
		error = error_new(ERROR_GONE, "no process is called '%s'%s", name,
				  request->kind == WIRE_ADD ?
					  ": give its pid, or --wait for it" :
					  ": give its pid or its program's name");
	else if (!error && pids->count > 1 && !wire_get_number(&request->message, WIRE_ALL, 0))
		error = find_process_several(name, pids, "use the pid of one, or --all",
					     describe);
	return error;
}

static struct error *find_pids(const struct request *request, const char *name, bool starts,
			       struct tids *ret_pids)
{
	if (!is_pid(name))
		return find_by_name(request, name, starts, ret_pids);
	unsigned long long pid = strtoull(name, NULL, 10);
	if (pid == 0 || pid > INT32_MAX)
		return error_new(ERROR_GONE, "there is no process %s", name);
	return vec_push(ret_pids, (pid_t)pid) ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* ---- requests to targets --------------------------------------------------------------------- */

static struct error *ask_one(struct request *request, pid_t pid, bool starts)
{
	struct target *target = target_find(request->supervisor, pid);
	struct process process;
	struct error *error = process_read(pid, &process);

	if (!error)
		error = request_may(request, pid, &process);
	if (!error && !starts && !(target && target->has_worker))
		error = target && request->kind == WIRE_TRACEPOINTS ?
				NULL :
				no_agent(request->supervisor, pid, process.name);
	if (!error && starts)
		error = target_start(request->supervisor, pid, &process, &target);
	if (!error && target && target->has_worker)
		target_call(target, request);
	return error;
}

static const struct command *command_of(enum wire_kind kind);

static void ask_targets(struct request *request)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	bool starts = command_of(request->kind)->starts;
	struct tids pids = { 0 };

	if (!name)
		return request_note(request, error_new(ERROR_USAGE, "no TARGET"));
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

/* With no TARGET: every one, as far as the client may. */
static void ask_all(struct request *request)
{
	struct supervisor *supervisor = request->supervisor;

	for (size_t i = supervisor->targets.count; i-- > 0;) {
		struct target *target = supervisor->targets.items[i];
		_cleanup_error_ struct error *no =
			request_may(request, target->pid, &target->process);

		if (!no && target->has_worker)
			target_call(target, request);
	}
}

static void run_switch(struct request *request)
{
	if (wire_get_text(&request->message, WIRE_TARGET))
		return ask_targets(request);
	if (request->who.uid == 0 || request->who.uid == request->supervisor->self.uid)
		request->supervisor->recording = request->kind == WIRE_START;
	ask_all(request);
}

static void run_flush(struct request *request)
{
	if (wire_get_text(&request->message, WIRE_TARGET))
		ask_targets(request);
	else
		ask_all(request);
}

/* ---- tracepoints that may wait --------------------------------------------------------------- */

static bool runs_already(const char *name)
{
	struct tids pids = { 0 };

	error_free(find_process_all(name, false, &pids));
	bool found = pids.count > 0;
	vec_free(&pids);
	return found;
}

/* What the commands wouldn't send, but other clients may; workers rely on it. */
static struct error *check_add(const struct wire_message *message)
{
	uint64_t longest = wire_get_number(message, WIRE_STRING_MAX, 0);
	struct wire_value value;
	size_t contexts = 0;

	for (size_t at = 0; wire_next(message, &at, &value);)
		contexts += value.tag == WIRE_CONTEXT_TYPE;
	if (!wire_get_text(message, WIRE_LOCATION))
		return error_new(ERROR_USAGE, "no LOC");
	if (longest && (longest < 8 || longest > DT_STRING_MAX))
		return error_new(ERROR_USAGE,
				 "the bytes of a string that are recorded: from 8 to %u",
				 DT_STRING_MAX);
	if (contexts > WIRE_CONTEXTS_MAX)
		return error_new(ERROR_USAGE, "%zu contexts are too many: at most %d at once",
				 contexts, WIRE_CONTEXTS_MAX);
	return NULL;
}

static void run_add(struct request *request)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	struct error *error = check_add(&request->message);

	if (error)
		return request_note(request, error);
	if (!name || is_pid(name) || !wire_get_number(&request->message, WIRE_WAIT, 0))
		return ask_targets(request);
	error = waiting_add(request->supervisor, request, name);
	if (error)
		return request_note(request, error);
	if (runs_already(name))
		ask_targets(request);
}

static void run_tracepoints(struct request *request)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	size_t waiting =
		name && !is_pid(name) ? waiting_list(request->supervisor, request, name) : 0;
	struct tids pids = { 0 };

	if (waiting)
		find_targets(request->supervisor, name, &pids);
	if (!waiting || pids.count)
		ask_targets(request);
	vec_free(&pids);
}

static void run_remove(struct request *request)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	const char *pattern = wire_get_text(&request->message, WIRE_NAME);
	size_t waiting = 0;
	struct tids pids = { 0 };

	if (name && pattern && !is_pid(name))
		waiting = waiting_remove(request->supervisor, &request->who, name, pattern);
	if (waiting)
		find_targets(request->supervisor, name, &pids);
	if (!waiting || pids.count)
		ask_targets(request);
	vec_free(&pids);
}

/* ---- what the supervisor knows itself -------------------------------------------------------- */

static void run_status(struct request *request)
{
	struct supervisor *supervisor = request->supervisor;
	struct wire_out out = { 0 };
	size_t tracepoints = 0;

	for (size_t i = 0; i < supervisor->targets.count; i++)
		tracepoints += supervisor->targets.items[i]->tracepoints;
	wire_begin(&out, WIRE_ITEM, request->sequence);
	wire_number(&out, WIRE_PID, (uint64_t)getpid());
	wire_number(&out, WIRE_UID, supervisor->self.uid);
	wire_text(&out, WIRE_PROGRAM_VERSION, DYNTRACE_VERSION);
	wire_text(&out, WIRE_SOCKET_PATH, supervisor->options.socket);
	wire_text(&out, WIRE_OUTPUT, supervisor->options.output);
	wire_number(&out, WIRE_RECORDING, supervisor->recording);
	wire_number(&out, WIRE_TARGET_COUNT, supervisor->targets.count);
	wire_number(&out, WIRE_TRACEPOINT_COUNT, tracepoints);
	wire_number(&out, WIRE_WAITING_COUNT, supervisor->waiting.count);
	wire_number(&out, WIRE_CLIENT_COUNT, supervisor->peers.count);
	reply_item(request, &out);
}

static void tell_process(struct request *request, const struct target *target)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_ITEM, request->sequence);
	wire_number(&out, WIRE_PID, (uint64_t)target->pid);
	wire_text(&out, WIRE_PROGRAM, target->process.name);
	wire_number(&out, WIRE_UID, target->process.user.uid);
	wire_text(&out, WIRE_LOADED, target->loaded);
	wire_number(&out, WIRE_TRACEPOINT_COUNT, target->tracepoints);
	wire_text(&out, WIRE_OUTPUT, target->trace);
	if (target_is_stopped(target))
		wire_text(&out, WIRE_STATE, "its worker is stopped");
	reply_item(request, &out);
}

/* A process that said it has the agent, and has begun a program without it since. Of those with a
 * worker that knows. */
static void forget_begun(struct supervisor *supervisor)
{
	for (size_t i = supervisor->targets.count; i-- > 0;) {
		struct target *target = supervisor->targets.items[i];
		struct process now;

		if (target->has_worker)
			continue;
		_cleanup_error_ struct error *gone = process_read(target->pid, &now);
		if (!gone && !strcmp(now.executable, target->process.executable))
			continue;
		events_tell(supervisor, target->pid, target->process.name, "exited",
			    "began another program");
		target_free(target);
	}
}

/* In the order of their pids; the user's own only, where that is the rule. */
static void run_processes(struct request *request)
{
	struct supervisor *supervisor = request->supervisor;

	forget_begun(supervisor);
	for (pid_t last = 0;;) {
		const struct target *next = NULL;

		for (size_t i = 0; i < supervisor->targets.count; i++) {
			const struct target *target = supervisor->targets.items[i];

			if (target->pid > last && (!next || target->pid < next->pid))
				next = target;
		}
		if (!next || !request->peer)
			return;
		last = next->pid;
		if ((next->attached || !next->has_worker) &&
		    (!supervisor->options.own_only ||
		     process_is_own(&next->process, &request->who)))
			tell_process(request, next);
	}
}

static void run_watch(struct request *request)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	struct peer *peer = request->peer;

	peer->watched = name && is_pid(name) ? (pid_t)strtoul(name, NULL, 10) : 0;
	free(peer->watched_name);
	peer->watched_name = name && !is_pid(name) ? strdup(name) : NULL;
	peer->watches = true;
	peer->channel.queue_max = WATCHER_QUEUE_MAX;
}

/* Whose agent it is the kernel says; the message only tells how it came there. */
static void run_register(struct request *request)
{
	const char *loaded = wire_get_text(&request->message, WIRE_LOADED);
	struct target *target = NULL;
	pid_t pid = request->who.pid;
	struct process process;
	struct error *error = process_read(pid, &process);

	if (!error)
		error = request_may(request, pid, &process);
	if (!error)
		error = target_register(
			request->supervisor, pid, &process,
			loaded && !strcmp(loaded, "preloaded") ? "preloaded" : "linked", &target);
	if (error)
		return request_note(request, error);
	waiting_process(request->supervisor, pid, request);
}

static const struct command table[WIRE_KIND_COUNT] = {
	[WIRE_STATUS] = { run_status },
	[WIRE_ATTACH] = { ask_targets, .starts = true },
	[WIRE_DETACH] = { ask_targets },
	[WIRE_PROCESSES] = { run_processes },
	[WIRE_TRACEPOINTS] = { run_tracepoints },
	[WIRE_ADD] = { run_add, .starts = true },
	[WIRE_REMOVE] = { run_remove },
	[WIRE_ENABLE] = { ask_targets },
	[WIRE_DISABLE] = { ask_targets },
	[WIRE_CONTEXT] = { ask_targets },
	[WIRE_START] = { run_switch },
	[WIRE_STOP] = { run_switch },
	[WIRE_FLUSH] = { run_flush },
	[WIRE_SNAPSHOT] = { run_flush },
	[WIRE_LOAD] = { ask_targets, .starts = true },
	[WIRE_UNLOAD] = { ask_targets },
	[WIRE_WATCH] = { run_watch },
	[WIRE_REGISTER] = { run_register },
};

static const struct command *command_of(enum wire_kind kind)
{
	return &table[kind];
}

void request_table_run(struct request *request)
{
	const struct command *command = command_of(request->kind);

	if (request->peer && request->peer->is_agent && request->kind != WIRE_REGISTER)
		request_note(request, error_new(ERROR_NOT_PERMITTED, "only agents are heard here"));
	else if (request->supervisor->ending)
		request_note(request, error_new(ERROR_FAILED, "the daemon is about to end"));
	else if (!command->run)
		request_note(request, error_new(ERROR_USAGE, "a client can't ask for '%s'",
						wire_kind_name(request->kind)));
	else
		command->run(request);
}
