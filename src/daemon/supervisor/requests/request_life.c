/*
 * request_life.c - the life of a request: made, answered here or by workers, logged.
 */
#include "request_life.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/peer.h"
#include "request_attributes.h"
#include "request_table.h"
#include "daemon/supervisor/supervisor.h"

#define LOGGED_MAX 200 /* bytes of a client's text in the log */

static void request_free(struct request *request)
{
	wire_free(&request->bytes);
	strbuf_free(&request->errors);
	strbuf_free(&request->summary);
	free(request);
}

/* Of the message only what its command knows; the rights are those of `request->who` (D4). */
static bool fill(struct request *request, const struct wire_message *message, bool noted)
{
	size_t used = 0;

	wire_begin(&request->bytes, message->kind, message->sequence);
	request_attributes_copy(&request->bytes, message, noted);
	identity_write(&request->who, &request->bytes);
	wire_end(&request->bytes);
	if (request->bytes.bytes.failed)
		return false;
	_cleanup_error_ struct error *error =
		wire_take(request->bytes.bytes.text, request->bytes.bytes.length, WIRE_MESSAGE_MAX,
			  &request->message, &used);
	return !error && used;
}

/* For the log: the texts that the client gave. */
static void summarise(struct request *request)
{
	static const enum wire_tag logged[] = { WIRE_TARGET,	   WIRE_LOCATION, WIRE_NAME,
						WIRE_CONTEXT_TYPE, WIRE_LIBRARY,  WIRE_TRACER,
						WIRE_ARGUMENT,	   WIRE_PROFILE };
	static const char *const names[] = { "target",	"location", "name",	"context",
					     "library", "tracer",   "argument", "profile" };

	for (size_t i = 0; i < sizeof(logged) / sizeof(logged[0]); i++) {
		const char *text = wire_get_text(&request->message, logged[i]);

		if (text)
			strbuf_printf(&request->summary, " %s='%.*s'", names[i], LOGGED_MAX, text);
	}
}

void request_begin(struct peer *peer, const struct wire_message *message)
{
	struct request *request = calloc(1, sizeof(*request));

	assert(!peer->request); /* D2 */
	if (!request)
		return peer_drop(peer, "out of memory");
	*request = (struct request){ .supervisor = peer->supervisor,
				     .peer = peer,
				     .sequence = message->sequence,
				     .kind = message->kind,
				     .who = peer->who };
	assert(request->who.uid == peer->who.uid); /* D4 */
	peer->request = request;
	request_open_call(request); /* nothing ends before all calls are made */
	if (!fill(request, message, false)) {
		request_note(request, error_new(ERROR_FAILED, "out of memory"));
	} else {
		summarise(request);
		request_table_run(request);
	}
	request_close_call(request);
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
	if (!error && used)
		identity_read(&message, &request->who);
	if (!error && (!used || !fill(request, &message, true)))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		request_free(request);
		return error;
	}
	request->kind = message.kind;
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

void request_open_call(struct request *request)
{
	request->calls++;
	assert(request->calls); /* D3 */
}

void request_close_call(struct request *request)
{
	assert(request->calls); /* D3 */
	request->calls--;
	request_settle(request);
}

/* Nobody else hears of the failure of a request that is done again, for the next worker. */
static bool may_log(const struct request *request)
{
	return request->failed && !request->who.pid ?
		       log_share_take_failure(request->supervisor, request->who.uid) :
		       log_share_take(request->supervisor, request->who.uid);
}

static void log_request(const struct request *request)
{
	const char *summary = request->summary.text ? request->summary.text : "";
	const struct identity *who = &request->who;

	/* our own, every few seconds (0: there is none, and requests of tracepoints that waited) */
	if (who->pid && who->pid == request->supervisor->metrics_pid && !request->failed)
		return;
	if (!may_log(request))
		return;
	if (request->failed)
		log_line("uid=%u pid=%d %s%s: failed: %.*s", who->uid, who->pid,
			 wire_kind_name(request->kind), summary, LOGGED_MAX,
			 request->errors.text ? request->errors.text : "out of memory");
	else
		log_line("uid=%u pid=%d %s%s: ok", who->uid, who->pid,
			 wire_kind_name(request->kind), summary);
}

/* Answers the peer, which may be gone afterwards. */
static void answer(struct request *request, const struct error *error)
{
	struct wire_out out = { 0 };
	struct peer *peer = request->peer;

	request->peer = NULL;
	if (!peer)
		return;
	assert(peer->request == request); /* D2 */
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
	assert(!request->peer || request->peer->request == request); /* D2 */
	log_request(request);
	_cleanup_error_ struct error *error =
		request->failed ?
			error_repeat(request->error_kind, request->errors.text ?
								  request->errors.text :
								  "out of memory") :
			NULL;
	answer(request, error);
	struct request *parent = request->parent;
	request_free(request);
	if (parent)
		request_close_call(parent);
}

void request_leave(struct request *request, struct error *error)
{
	assert(request->peer && request->calls);
	if (log_share_take(request->supervisor, request->who.uid))
		log_line("uid=%u pid=%d %s%s: still at work: %s", request->who.uid,
			 request->who.pid, wire_kind_name(request->kind),
			 request->summary.text ? request->summary.text : "", error_text(error));
	answer(request, error);
	error_free(error);
}

void request_tell(const struct request *request, pid_t pid, const char *text)
{
	struct wire_out out = { 0 };

	if (!request->peer)
		return;
	wire_begin(&out, WIRE_NOTE, request->sequence);
	wire_number(&out, WIRE_PID, (uint64_t)pid);
	wire_text(&out, WIRE_NOTE_TEXT, text);
	wire_end(&out);
	peer_send(request->peer, &out);
	wire_free(&out);
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
