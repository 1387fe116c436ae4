/*
 * connection.c - the handle, its errors, and the way of each call to the daemon.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"

_Static_assert((int)DYNTRACE_FAILED == (int)ERROR_FAILED &&
		       (int)DYNTRACE_REFUSED == (int)ERROR_REFUSED,
	       "error kinds are passed on unchanged");

unsigned int dyntrace_api_version(void)
{
	return DYNTRACE_API_VERSION;
}

const char *dyntrace_error_text(const struct dyntrace_error *error)
{
	return error ? error_text((const struct error *)error) : "";
}

enum dyntrace_error_kind dyntrace_error_kind(const struct dyntrace_error *error)
{
	return error ? (enum dyntrace_error_kind)error_kind((const struct error *)error)
		     : DYNTRACE_FAILED;
}

void dyntrace_error_free(struct dyntrace_error *error)
{
	error_free((struct error *)error);
}

struct dyntrace_error *dyntrace_connect(const char *socket, struct dyntrace **ret_dyntrace)
{
	struct client *client = NULL;
	struct error *error = client_connect(socket, &client);

	if (error)
		return api_error(error);
	struct dyntrace *dyntrace = calloc(1, sizeof(*dyntrace));
	if (!dyntrace) {
		client_close(client);
		return api_error(error_new(ERROR_FAILED, "out of memory"));
	}
	dyntrace->client = client;
	*ret_dyntrace = dyntrace;
	return NULL;
}

void dyntrace_close(struct dyntrace *dyntrace)
{
	if (!dyntrace)
		return;
	client_close(dyntrace->client);
	strbuf_free(&dyntrace->notes);
	free(dyntrace->said.bytes);
	free(dyntrace);
}

const char *dyntrace_notes(const struct dyntrace *dyntrace)
{
	return dyntrace->notes.text ? dyntrace->notes.text : "";
}

/* ---- requests -------------------------------------------------------------------------------- */

struct error *api_need(const char *argument, const char *what)
{
	return argument && *argument ? NULL : error_new(ERROR_USAGE, "the %s is missing", what);
}

struct wire_out *api_begin(struct dyntrace *dyntrace, enum wire_kind kind, const char *target,
			   unsigned int flags)
{
	struct wire_out *out = client_out(dyntrace->client);

	wire_free(out);
	strbuf_free(&dyntrace->notes);
	wire_begin(out, kind, 0);
	wire_text(out, WIRE_TARGET, target);
	if (flags & DYNTRACE_ALL)
		wire_number(out, WIRE_ALL, 1);
	return out;
}

struct answer {
	struct dyntrace *dyntrace;
	struct dyntrace_list *list;
};

struct error *api_take(struct dyntrace *dyntrace, struct dyntrace_list *list,
		       const struct wire_message *message)
{
	const char *note = wire_get_text(message, WIRE_NOTE_TEXT);

	if (message->kind == WIRE_NOTE && note && dyntrace)
		strbuf_printf(&dyntrace->notes, "%s\n", note);
	if (message->kind == WIRE_ITEM && list)
		return list_add(list, message);
	return NULL;
}

static struct error *take_answer(void *context, const struct wire_message *message)
{
	struct answer *answer = context;

	return api_take(answer->dyntrace, answer->list, message);
}

struct error *api_finish(struct dyntrace *dyntrace, struct dyntrace_list *list)
{
	struct answer answer = { dyntrace, list };

	wire_end(client_out(dyntrace->client));
	return client_call(dyntrace->client, take_answer, &answer);
}

struct error *api_finish_list(struct dyntrace *dyntrace, enum wire_kind kind,
			      struct dyntrace_list **ret_list)
{
	struct dyntrace_list *list = ret_list ? list_create(kind) : NULL;

	if (ret_list && !list)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = api_finish(dyntrace, list);
	if (error)
		dyntrace_list_free(list);
	else if (ret_list)
		*ret_list = list;
	return error;
}

/* ---- the daemon itself ----------------------------------------------------------------------- */

static struct error *take_status(void *context, const struct wire_message *message)
{
	struct dyntrace *dyntrace = context;
	struct record said;

	if (message->kind != WIRE_ITEM)
		return NULL;
	if (!record_copy(message, &said))
		return error_new(ERROR_FAILED, "out of memory");
	free(dyntrace->said.bytes);
	dyntrace->said = said;
	dyntrace->status = (struct dyntrace_status){
		.version = wire_get_text(&said.message, WIRE_PROGRAM_VERSION),
		.socket = wire_get_text(&said.message, WIRE_SOCKET_PATH),
		.output = wire_get_text(&said.message, WIRE_OUTPUT),
		.pid = (int)wire_get_number(&said.message, WIRE_PID, 0),
		.uid = (unsigned int)wire_get_number(&said.message, WIRE_UID, 0),
		.recording = wire_get_number(&said.message, WIRE_RECORDING, 0) != 0,
		.processes = wire_get_number(&said.message, WIRE_TARGET_COUNT, 0),
		.tracepoints = wire_get_number(&said.message, WIRE_TRACEPOINT_COUNT, 0),
		.waiting = wire_get_number(&said.message, WIRE_WAITING_COUNT, 0),
		.clients = wire_get_number(&said.message, WIRE_CLIENT_COUNT, 0),
	};
	return NULL;
}

struct dyntrace_error *dyntrace_status(struct dyntrace *dyntrace,
				       const struct dyntrace_status **ret_status)
{
	wire_end(api_begin(dyntrace, WIRE_STATUS, NULL, 0));
	struct error *error = client_call(dyntrace->client, take_status, dyntrace);

	if (!error)
		*ret_status = &dyntrace->status;
	return api_error(error);
}
