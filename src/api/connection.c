/*
 * connection.c - the handle, its errors, and how each call asks the daemon.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"

_Static_assert((int)DYNTRACE_FAILED == (int)ERROR_FAILED &&
		       (int)DYNTRACE_REFUSED == (int)ERROR_REFUSED,
	       "kinds of errors go out as they are");

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
	free(dyntrace);
}

const char *dyntrace_notes(const struct dyntrace *dyntrace)
{
	return dyntrace->notes.text ? dyntrace->notes.text : "";
}

/* ---- asking ---------------------------------------------------------------------------------- */

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

static struct error *take_answer(void *context, const struct wire_message *message)
{
	struct answer *answer = context;
	const char *note = wire_get_text(message, WIRE_NOTE_TEXT);

	if (message->kind == WIRE_NOTE && note)
		strbuf_printf(&answer->dyntrace->notes, "%s\n", note);
	if (message->kind == WIRE_ITEM && answer->list)
		return list_add(answer->list, message);
	return NULL;
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
