/*
 * api_watch.c - notifications, over a connection of their own.
 *
 *	(A1) early[given..count) came before the reply to WIRE_WATCH, and is given out first.
 */
#include <assert.h>
#include <stdlib.h>

#include "api.h"

struct dyntrace_watch {
	struct client *client;
	VEC(struct record) early;
	size_t given; /* of early */
	struct dyntrace_event event;
};

static struct error *keep_early(void *context, const struct wire_message *message)
{
	struct dyntrace_watch *watch = context;
	struct record record;

	if (message->kind != WIRE_EVENT)
		return NULL;
	if (!record_copy(message, &record))
		return error_new(ERROR_FAILED, "out of memory");
	if (vec_push(&watch->early, record))
		return NULL;
	free(record.bytes);
	return error_new(ERROR_FAILED, "out of memory");
}

static struct error *watch_begin(struct dyntrace_watch *watch, const char *path, const char *target)
{
	struct error *error = client_connect(path, &watch->client);

	if (error)
		return error;
	struct wire_out *out = client_out(watch->client);
	wire_begin(out, WIRE_WATCH, 0);
	wire_text(out, WIRE_TARGET, target);
	wire_end(out);
	return client_call(watch->client, keep_early, watch);
}

struct dyntrace_error *dyntrace_watch_open(struct dyntrace *dyntrace, const char *target,
					   struct dyntrace_watch **ret_watch)
{
	struct dyntrace_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return api_error(error_new(ERROR_FAILED, "out of memory"));
	struct error *error = watch_begin(watch, client_path(dyntrace->client), target);
	if (error)
		dyntrace_watch_close(watch);
	else
		*ret_watch = watch;
	return api_error(error);
}

void dyntrace_watch_close(struct dyntrace_watch *watch)
{
	if (!watch)
		return;
	client_close(watch->client);
	for (size_t i = 0; i < watch->early.count; i++)
		free(watch->early.items[i].bytes);
	vec_free(&watch->early);
	free(watch);
}

int dyntrace_watch_fd(const struct dyntrace_watch *watch)
{
	return client_fd(watch->client);
}

static void fill_event(struct dyntrace_event *event, const struct wire_message *from)
{
	const char *program = wire_get_text(from, WIRE_PROGRAM),
		   *name = wire_get_text(from, WIRE_EVENT_NAME);

	*event = (struct dyntrace_event){
		.time_ns = wire_get_number(from, WIRE_TIME, 0),
		.pid = (int)wire_get_number(from, WIRE_PID, 0),
		.program = program ? program : "",
		.name = name ? name : "",
		.detail = wire_get_text(from, WIRE_DETAIL),
	};
}

struct dyntrace_error *dyntrace_watch_next(struct dyntrace_watch *watch, int timeout_ms,
					   const struct dyntrace_event **ret_event)
{
	struct wire_message message = { 0 };
	bool some = watch->given < watch->early.count;

	assert(watch->given <= watch->early.count); /* A1 */
	if (some) {
		message = watch->early.items[watch->given++].message;
	} else {
		struct error *error;

		do
			error = client_next(watch->client, timeout_ms, &message, &some);
		while (!error && some && message.kind != WIRE_EVENT);
		if (error)
			return api_error(error);
	}
	if (some)
		fill_event(&watch->event, &message);
	*ret_event = some ? &watch->event : NULL;
	return NULL;
}
