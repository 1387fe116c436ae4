/*
 * request_table.c - what the supervisor does with each kind of request: one table.
 */
#include "request_table.h"

#include <stdio.h>
#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/find_process.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/events.h"
#include "daemon/supervisor/peer.h"
#include "permissions.h"
#include "daemon/supervisor/targets/process.h"
#include "request_life.h"
#include "request_targets.h"
#include "shared/program.h"
#include "daemon/supervisor/targets/stuck.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/supervisor/targets/target.h"
#include "daemon/supervisor/targets/worker_calls.h"
#include "waiting.h"
#include "daemon/supervisor/targets/target_worker.h"

#define STOPPED_TOLD 32 /* processes, or profiles, that status names */

struct command {
	void (*run)(struct request *request); /* NULL: not for clients */
	bool starts; /* a process without the agent gets it */
};

static void reply_item(struct request *request, struct wire_out *out)
{
	wire_end(out);
	if (request->peer)
		peer_send(request->peer, out);
	wire_free(out);
}

static const struct command *command_of(enum wire_kind kind);

static void ask_targets(struct request *request)
{
	request_targets_ask(request, command_of(request->kind)->starts);
}

static void run_switch(struct request *request)
{
	if (wire_get_text(&request->message, WIRE_TARGET))
		return ask_targets(request);
	if (request->who.uid == 0 || request->who.uid == request->supervisor->self.uid)
		request->supervisor->recording = request->kind == WIRE_START;
	request_targets_ask_all(request);
}

static void run_flush(struct request *request)
{
	if (wire_get_text(&request->message, WIRE_TARGET))
		ask_targets(request);
	else
		request_targets_ask_all(request);
}

/* ---- tracepoints, which may wait ----------------------------------------------------------- */

static bool runs_already(const char *name)
{
	struct tids pids = { 0 };

	error_free(find_process_all(name, false, &pids));
	bool found = pids.count > 0;
	vec_free(&pids);
	return found;
}

/* Workers rely on this. The commands send nothing else, but other clients may. */
/* A client's texts end up in lists, logs and file names of others: none is very long, or holds what
 * could act on a terminal (H40). */
static struct error *check_texts(const struct wire_message *message)
{
	struct wire_value value;

	for (size_t at = 0; wire_next(message, &at, &value);) {
		if (!value.text)
			continue;
		size_t length = strlen(value.text);
		size_t most = value.tag == WIRE_NAME ? NAME_MAX : PATH_MAX;

		if (value.tag == WIRE_NAME && !length)
			return error_new(ERROR_USAGE, "the name is empty");
		if (length > most)
			return error_new(ERROR_USAGE, "'%.20s...' is too long (at most %zu bytes)",
					 value.text, most);
		for (const char *c = value.text; *c; c++) {
			if (iscntrl((unsigned char)*c))
				return error_new(ERROR_USAGE,
						 "a name, location or text has a control character in it");
		}
	}
	return NULL;
}

static struct error *check_question(const struct wire_message *message)
{
	const char *tracer = wire_get_text(message, WIRE_TRACER);

	if (!tracer || strcmp(tracer, "count") != 0)
		return error_new(ERROR_USAGE, "--by and --of: need the tracer count");
	if (wire_get_number(message, WIRE_KEYS, 0) > WIRE_KEYS_MAX)
		return error_new(ERROR_USAGE, "--keys: at most %d", WIRE_KEYS_MAX);
	return NULL;
}

static struct error *check_add(const struct wire_message *message)
{
	uint64_t longest = wire_get_number(message, WIRE_STRING_MAX, 0);
	struct wire_value value;
	size_t contexts = 0;

	for (size_t at = 0; wire_next(message, &at, &value);)
		contexts += value.tag == WIRE_CONTEXT_TYPE;
	if (!wire_get_text(message, WIRE_LOCATION))
		return error_new(ERROR_USAGE, "the location is missing");
	if (longest && (longest < 8 || longest > DT_STRING_MAX))
		return error_new(ERROR_USAGE,
				 "the length of recorded strings must be from 8 to %u bytes",
				 DT_STRING_MAX);
	if (contexts > WIRE_CONTEXTS_MAX)
		return error_new(ERROR_USAGE, "too many contexts: %zu (at most %d)", contexts,
				 WIRE_CONTEXTS_MAX);
	if (wire_get_text(message, WIRE_BY) || wire_get_text(message, WIRE_OF))
		return check_question(message);
	return NULL;
}

static void run_add(struct request *request)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	struct error *error = check_add(&request->message);

	if (error)
		return request_note(request, error);
	if (!name || request_targets_is_pid(name) ||
	    !wire_get_number(&request->message, WIRE_WAIT, 0))
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
	size_t waiting = name && !request_targets_is_pid(name) ?
				 waiting_list(request->supervisor, request, name) :
				 0;
	struct tids pids = { 0 };

	if (!name && wire_get_number(&request->message, WIRE_COST, 0))
		return request_targets_ask_all(request);
	if (waiting)
		request_targets_find(request->supervisor, name, &pids);
	if (!waiting || pids.count)
		ask_targets(request);
	vec_free(&pids);
}

static void run_remove(struct request *request)
{
	const char *name = wire_get_text(&request->message, WIRE_TARGET);
	const char *pattern = wire_get_text(&request->message, WIRE_NAME);
	size_t waiting = 0, others = 0;
	struct tids pids = { 0 };

	if (name && pattern && !request_targets_is_pid(name))
		waiting = waiting_remove(request->supervisor, &request->who, name, pattern,
					 &others);
	if (waiting || others)
		request_targets_find(request->supervisor, name, &pids);
	if (others && !waiting && !pids.count)
		request_note(request,
			     error_new(ERROR_NOT_PERMITTED,
				       "'%s' waits for '%s' by another user's request: only that "
				       "user and root can remove it",
				       pattern, name));
	else if (!waiting || pids.count)
		ask_targets(request);
	vec_free(&pids);
}

/* ---- the supervisor's own knowledge -------------------------------------------------------- */

/* Processes whose recording was stopped by themselves: it is on otherwise. */
static void tell_stopped(const struct supervisor *supervisor, struct wire_out *out)
{
	for (size_t i = 0, told = 0; i < supervisor->targets.count && told < STOPPED_TOLD; i++) {
		const struct target *target = supervisor->targets.items[i];
		char text[96];

		if (!supervisor->recording || !target->has_worker ||
		    target_worker_is_recording(target))
			continue;
		snprintf(text, sizeof(text), "%d (%s)", target->pid, target->process.name);
		wire_text(out, WIRE_DETAIL, text);
		told++;
	}
}

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
	tell_stopped(supervisor, &out);
	wire_number(&out, WIRE_PROFILE_COUNT, supervisor->profiles.files);
	for (size_t i = 0; i < supervisor->profiles.errors.count && i < STOPPED_TOLD; i++)
		wire_text(&out, WIRE_PROFILE_ERROR, supervisor->profiles.errors.items[i]);
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
	if (stuck_worker_is_stopped(target))
		wire_text(&out, WIRE_STATE, "its worker is stopped");
	reply_item(request, &out);
}

/* Forgets registered processes that have begun a program without the agent since, and lets go of
 * those that have a worker. */
static void forget_begun(struct supervisor *supervisor)
{
	for (size_t i = supervisor->targets.count; i-- > 0;) {
		struct target *target = supervisor->targets.items[i];
		struct process now;

		_cleanup_error_ struct error *gone = process_read(target->pid, &now);
		if (target->has_worker) {
			if (!gone && target->attached && !process_runs_same(&target->process, &now))
				worker_calls_look(target);
			continue;
		}
		if (!gone && !strcmp(now.executable, target->process.executable))
			continue;
		events_tell(supervisor, target->pid, target->process.name, "exited",
			    "began another program");
		target_free(target);
	}
}

/* In the order of their pids; with --own-only the user's own. */
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

	if (!peer) /* a request of the journal is none to watch */
		return;
	peer->watched = name && request_targets_is_pid(name) ? (pid_t)strtoul(name, NULL, 10) : 0;
	free(peer->watched_name);
	peer->watched_name = name && !request_targets_is_pid(name) ? strdup(name) : NULL;
	peer_watch(peer);
}

/* The kernel says whose agent it is (D4); the message only says how the agent was loaded. */
static void run_register(struct request *request)
{
	const char *loaded = wire_get_text(&request->message, WIRE_LOADED);
	struct target *target = NULL;
	pid_t pid = request->who.pid;
	struct process process;
	struct error *error = NULL;

	/* The socket may have been handed on, and its owner may run another program by now. */
	if (request->peer && request->peer->channel.asks_sender &&
	    request->peer->channel.sender != pid)
		error = error_new(ERROR_NOT_PERMITTED,
				  "this socket is process %d's: another process can't register for it",
				  pid);
	if (!error)
		error = process_read(pid, &process);
	if (!error && process.user.uid != request->who.uid)
		error = error_new(ERROR_NOT_PERMITTED,
				  "process %d has other rights than when it connected", pid);
	if (!error)
		error = permissions_check(request, pid, &process);
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
	[WIRE_NO_CONTEXT] = { ask_targets },
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
	assert(kind < WIRE_KIND_COUNT); /* wire_take refuses others */
	return &table[kind];
}

void request_table_run(struct request *request)
{
	const struct command *command = command_of(request->kind);
	struct error *bad = request->peer ? check_texts(&request->message) : NULL;

	if (bad)
		request_note(request, bad);
	else if (request->peer && request->peer->is_agent && request->kind != WIRE_REGISTER)
		request_note(request,
			     error_new(ERROR_NOT_PERMITTED, "this socket is for agents only"));
	else if (request->supervisor->ending)
		request_note(request, error_new(ERROR_FAILED, "the daemon is ending"));
	else if (!command->run)
		request_note(request, error_new(ERROR_USAGE, "clients can't ask for '%s'",
						wire_kind_name(request->kind)));
	else
		command->run(request);
}
