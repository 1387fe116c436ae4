/*
 * permissions.c - the life of a request: permitted or not, answered here or by workers, logged.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/proc/proc.h"
#include "request_table.h"
#include "daemon/base/log.h"
#include "supervisor.h"

#define LOGGED_MAX 200 /* bytes of a text of the client's in the log */

static void request_free(struct request *request)
{
	wire_free(&request->bytes);
	strbuf_free(&request->errors);
	strbuf_free(&request->summary);
	free(request);
}

/* Attributes that only the supervisor may write. */
static const enum wire_tag reserved[] = { WIRE_UID, WIRE_GID, WIRE_GROUP, WIRE_NO_TAG };

static bool fill(struct request *request, const struct wire_message *message, bool trusted)
{
	static const enum wire_tag none[] = { WIRE_NO_TAG };
	size_t used = 0;

	wire_begin(&request->bytes, message->kind, message->sequence);
	wire_copy(&request->bytes, message, trusted ? none : reserved);
	if (!trusted)
		identity_write(&request->who, &request->bytes);
	wire_end(&request->bytes);
	if (request->bytes.bytes.failed)
		return false;
	_cleanup_error_ struct error *error =
		wire_take(request->bytes.bytes.text, request->bytes.bytes.length, WIRE_MESSAGE_MAX,
			  &request->message, &used);
	return !error && used;
}

/* What the log says of it: the texts of the user's own. */
static void summarise(struct request *request)
{
	static const enum wire_tag logged[] = { WIRE_TARGET,	   WIRE_LOCATION, WIRE_NAME,
						WIRE_CONTEXT_TYPE, WIRE_LIBRARY,  WIRE_TRACER,
						WIRE_ARGUMENT };
	static const char *const names[] = { "target",	"location", "name",    "context",
					     "library", "tracer",   "argument" };

	for (size_t i = 0; i < sizeof(logged) / sizeof(logged[0]); i++) {
		const char *text = wire_get_text(&request->message, logged[i]);

		if (text)
			strbuf_printf(&request->summary, " %s='%.*s'", names[i], LOGGED_MAX, text);
	}
}

void request_begin(struct peer *peer, const struct wire_message *message)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request)
		return peer_drop(peer, "out of memory");
	*request = (struct request){ .supervisor = peer->supervisor,
				     .peer = peer,
				     .sequence = message->sequence,
				     .kind = message->kind,
				     .who = peer->who };
	peer->request = request;
	request->calls = 1; /* until all are made: nothing ends before */
	if (!fill(request, message, false)) {
		request_note(request, error_new(ERROR_FAILED, "out of memory"));
	} else {
		summarise(request);
		request_table_run(request);
	}
	request->calls--;
	request_settle(request);
}

struct error *request_again(struct supervisor *supervisor, const char *bytes, size_t length,
			    struct request **ret_request)
{
	struct request *request = calloc(1, sizeof(*request));
	struct wire_message message;
	size_t used = 0;

	if (!request)
		return error_new(ERROR_FAILED, "out of memory");
	request->supervisor = supervisor;
	struct error *error = wire_take(bytes, length, WIRE_MESSAGE_MAX, &message, &used);
	if (!error && (!used || !fill(request, &message, true)))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		request_free(request);
		return error;
	}
	request->kind = message.kind;
	identity_read(&request->message, &request->who);
	summarise(request);
	*ret_request = request;
	return NULL;
}

void request_note(struct request *request, struct error *error)
{
	if (!error) {
		request->done++;
		return;
	}
	if (!request->failed)
		request->error_kind = error_kind(error);
	if (request->errors.length < WIRE_REQUEST_MAX)
		strbuf_printf(&request->errors, "%s%s", request->failed ? "; " : "",
			      error_text(error));
	request->failed++;
	error_free(error);
}

static void log_request(const struct request *request)
{
	const char *summary = request->summary.text ? request->summary.text : "";
	const struct identity *who = &request->who;

	if (request->failed)
		log_line("uid=%u pid=%d %s%s: failed: %.*s", who->uid, who->pid,
			 wire_kind_name(request->kind), summary, LOGGED_MAX,
			 request->errors.text ? request->errors.text : "out of memory");
	else
		log_line("uid=%u pid=%d %s%s: ok", who->uid, who->pid,
			 wire_kind_name(request->kind), summary);
}

/* The answer to who asked; he may be gone afterwards. */
static void answer(struct request *request, const struct error *error)
{
	struct wire_out out = { 0 };
	struct peer *peer = request->peer;

	request->peer = NULL;
	if (!peer)
		return;
	peer->request = NULL;
	wire_begin_reply(&out, request->sequence, error);
	wire_end(&out);
	peer->again = true;
	peer_send(peer, &out);
	wire_free(&out);
}

void request_settle(struct request *request)
{
	if (request->calls)
		return;
	log_request(request);
	_cleanup_error_ struct error *error =
		request->failed ?
			error_new(request->error_kind, "%s",
				  request->errors.text ? request->errors.text : "out of memory") :
			NULL;
	answer(request, error);
	struct request *parent = request->parent;
	request_free(request);
	if (parent) {
		parent->calls--;
		request_settle(parent);
	}
}

void request_leave(struct request *request, struct error *error)
{
	log_line("uid=%u pid=%d %s%s: waits: %s", request->who.uid, request->who.pid,
		 wire_kind_name(request->kind), request->summary.text ? request->summary.text : "",
		 error_text(error));
	answer(request, error);
	error_free(error);
}

void request_forward(struct request *request, const struct wire_message *answer, pid_t pid)
{
	static const enum wire_tag ours[] = { WIRE_PID, WIRE_UID, WIRE_GID, WIRE_GROUP,
					      WIRE_NO_TAG };
	struct wire_out out = { 0 };

	if (!request || !request->peer)
		return;
	wire_begin(&out, answer->kind, request->sequence);
	wire_number(&out, WIRE_PID, (uint64_t)pid);
	wire_copy(&out, answer, ours);
	wire_end(&out);
	peer_send(request->peer, &out);
	wire_free(&out);
}

/* ---- who may --------------------------------------------------------------------------------- */

static bool loads_code(const struct request *request)
{
	const char *tracer = wire_get_text(&request->message, WIRE_TRACER);

	return request->kind == WIRE_LOAD || request->kind == WIRE_UNLOAD ||
	       (tracer && !strcmp(tracer, "call"));
}

/* Who has registered has allowed us to trace it (register.c), where the kernel would let users
 * trace what they have started only. */
bool target_needs_root(const struct target *target, const struct process *process)
{
	bool registered = target && strcmp(target->loaded, "injected") != 0;
	char scope = process->user.uid ? proc_ptrace_scope() : '0';

	return !process_is_plain(process) || scope > '1' || (scope == '1' && !registered);
}

static struct error *check_rights(const struct request *request, pid_t pid,
				  const struct process *process)
{
	struct supervisor *supervisor = request->supervisor;

	if (supervisor->self.uid != 0 || supervisor->options.all_targets ||
	    !target_needs_root(target_find(supervisor, pid), process))
		return NULL;
	if (!process_is_plain(process))
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) has changed its user or has special rights: its user's rights aren't enough to "
			"trace it; start dyntraced with --all-targets",
			pid, process->name);
	return error_new(
		ERROR_NOT_PERMITTED,
		"process %d (%s): kernel.yama.ptrace_scope is %c, so its user's rights aren't enough to trace it; start "
		"dyntraced with --all-targets, or the program with the agent preloaded",
		pid, process->name, proc_ptrace_scope());
}

struct error *request_may(const struct request *request, pid_t pid, const struct process *process)
{
	const struct supervisor *supervisor = request->supervisor;
	bool own = process_is_own(process, &request->who);

	if (supervisor->self.uid != 0 && process->user.uid != supervisor->self.uid)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) belongs to another user: only a daemon that runs as root can trace it",
			pid, process->name);
	if (loads_code(request) && !own)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) isn't yours: code is loaded only into one's own processes, or by root",
			pid, process->name);
	if (supervisor->options.own_only && !own)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) isn't yours: this daemon lets each user trace his own processes only "
			"(--own-only)",
			pid, process->name);
	return check_rights(request, pid, process);
}
