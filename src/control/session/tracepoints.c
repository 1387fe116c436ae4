/*
 * tracepoints.c - from places to tracepoints: their names, and what their events hold.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "internal.h"

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void keep_name(void *name)
{
}

/* `wanted`, or wanted-2, wanted-3...: the first that isn't taken. Caller frees. */
static char *unique_name(void **taken, const char *wanted)
{
	char *name = strdup(wanted);

	for (unsigned n = 2; name && tfind(name, taken, compare_names); n++) {
		free(name);
		if (asprintf(&name, "%s-%u", wanted, n) < 0)
			return NULL;
	}
	if (name && !tsearch(name, taken, compare_names)) {
		free(name);
		return NULL;
	}
	return name;
}

static struct error *add_tracepoint(struct session *session, const struct request *request,
				    const struct place *place, void **taken)
{
	struct tracepoint *tracepoint = calloc(1, sizeof(*tracepoint));

	if (!tracepoint || !vec_push(&session->tracepoints, tracepoint)) {
		free(tracepoint);
		return error_new(ERROR_FAILED, "out of memory");
	}
	tracepoint->kind = place->marker ? TRACEPOINT_BARE : request->kind;
	/* Of inlined copies, and of a marker's places, some may be refused. */
	tracepoint->from_glob = request->location.is_glob || place->inlined || place->marker;
	tracepoint->probe.place = *place;
	tracepoint->probe.event.exit = tracepoint->kind == TRACEPOINT_FUNCTION;
	tracepoint->name = unique_name(taken, place->name);
	if (!tracepoint->name)
		return error_new(ERROR_FAILED, "out of memory");
	return values_describe(session, tracepoint);
}

struct error *tracepoints_create(struct session *session)
{
	void *taken = NULL;
	struct error *error = NULL;

	for (size_t i = 0; i < session->requests.count && !error; i++) {
		const struct request *request = &session->requests.items[i];

		for (size_t j = 0; j < request->places.count && !error; j++)
			error = add_tracepoint(session, request, &request->places.items[j], &taken);
	}
	tdestroy(taken, keep_name);
	return error;
}

void tracepoints_free(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		error_free(tracepoint->probe.refusal);
		error_free(tracepoint->exit_refusal);
		values_free(&tracepoint->values);
		free(tracepoint->name);
		free(tracepoint);
	}
	vec_free(&session->tracepoints);
}

static struct error *describe_event(struct tracepoint *tracepoint, struct event_type *ret_type)
{
	const struct tramp_event *event = &tracepoint->probe.event;
	const char *suffix = tracepoint->kind == TRACEPOINT_BARE ? "" : "_entry";
	struct event_type type = { .size = event->size, .address = tracepoint->probe.place.address.v };

	if (asprintf(&type.name, "%s%s", tracepoint->name, suffix) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	values_give(tracepoint, &type);
	*ret_type = type;
	return NULL;
}

static struct error *describe_exit(struct tracepoint *tracepoint, struct event_type *ret_type)
{
	static const struct event_field duration = { .name = "duration", .type = FIELD_UINT,
						     .size = sizeof(uint64_t),
						     .offset = EXIT_EVENT_DURATION };
	struct event_type type = { .size = EXIT_EVENT_SIZE,
				   .address = tracepoint->probe.place.address.v };
	struct event_field *ret = &tracepoint->values.ret;

	if (asprintf(&type.name, "%s_exit", tracepoint->name) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	type.fields = calloc(2, sizeof(*type.fields));
	if (!type.fields) {
		free(type.name);
		return error_new(ERROR_FAILED, "out of memory");
	}
	if (ret->name[0]) {
		ret->offset = EXIT_EVENT_RET;
		type.fields[type.field_count++] = *ret;
		*ret = (struct event_field){ .name = "" }; /* handed over */
	}
	type.fields[type.field_count++] = duration;
	*ret_type = type;
	return NULL;
}

/* The exit's id is the one behind the entry's. */
static struct error *add_type(struct session *session, struct tracepoint *tracepoint,
			      struct error *(*describe)(struct tracepoint *, struct event_type *))
{
	struct event_type type;

	if (session->types->count >= DT_EVENTS_MAX)
		return error_new(ERROR_FAILED, "more than %u kinds of events: name fewer places", DT_EVENTS_MAX);
	struct error *error = describe(tracepoint, &type);
	if (error)
		return error;
	type.id = (uint32_t)session->types->count;
	return vec_push(session->types, type) ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* Event types, and with them ids, for each tracepoint that has a site. */
struct error *tracepoints_types(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (!tracepoint->probe.site)
			continue;
		tracepoint->probe.event.id = (uint32_t)session->types->count;
		struct error *error = add_type(session, tracepoint, describe_event);
		if (!error && tracepoint->probe.event.exit)
			error = add_type(session, tracepoint, describe_exit);
		if (error)
			return error;
	}
	return NULL;
}
