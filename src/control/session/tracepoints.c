/*
 * tracepoints.c - from places to tracepoints: their names, and what their events hold.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "internal.h"

/* The integer argument registers of the System V ABI, in order. */
static const enum reg argument_regs[] = { RDI, RSI, RDX, RCX, R8, R9 };
#define ARGUMENTS (sizeof(argument_regs) / sizeof(argument_regs[0]))
#define WORD sizeof(uint64_t)

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

static void set_fields(struct tramp_event *event, enum tracepoint_kind kind)
{
	event->size = WORD;
	if (kind != TRACEPOINT_ENTRY)
		return;
	for (size_t i = 0; i < ARGUMENTS; i++) {
		event->fields[i] = (struct tramp_field){ SOURCE_REGISTER, argument_regs[i],
							 (uint16_t)event->size };
		event->size += WORD;
	}
	event->field_count = ARGUMENTS;
}

static struct error *add_tracepoint(struct session *session, const struct request *request,
				    const struct place *place, void **taken)
{
	struct tracepoint *tracepoint = calloc(1, sizeof(*tracepoint));

	if (!tracepoint || !vec_push(&session->tracepoints, tracepoint)) {
		free(tracepoint);
		return error_new(ERROR_FAILED, "out of memory");
	}
	tracepoint->kind = request->kind;
	tracepoint->from_glob = request->location.is_glob;
	tracepoint->probe.place = *place;
	set_fields(&tracepoint->probe.event, request->kind);
	tracepoint->name = unique_name(taken, place->name);
	return tracepoint->name ? NULL : error_new(ERROR_FAILED, "out of memory");
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
		free(tracepoint->name);
		free(tracepoint);
	}
	vec_free(&session->tracepoints);
}

static struct error *describe_event(const struct tracepoint *tracepoint, struct event_type *ret_type)
{
	const struct tramp_event *event = &tracepoint->probe.event;
	const char *suffix = tracepoint->kind == TRACEPOINT_ENTRY ? "_entry" : "";
	struct event_type type = { .size = event->size, .address = tracepoint->probe.place.address.v };

	if (asprintf(&type.name, "%s%s", tracepoint->name, suffix) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	type.fields = calloc(event->field_count + 1, sizeof(*type.fields));
	if (!type.fields) {
		free(type.name);
		return error_new(ERROR_FAILED, "out of memory");
	}
	for (size_t i = 0; i < event->field_count; i++) {
		struct event_field *field = &type.fields[type.field_count++];

		snprintf(field->name, sizeof(field->name), "arg%zu", i);
		field->type = FIELD_HEX;
		field->size = WORD;
		field->offset = event->fields[i].offset;
	}
	*ret_type = type;
	return NULL;
}

/* An event type, and with it an id, for each tracepoint that has a site. */
struct error *tracepoints_types(struct session *session)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];
		struct event_type type;

		if (!tracepoint->probe.site)
			continue;
		if (session->types.count >= DT_EVENTS_MAX)
			return error_new(ERROR_FAILED, "more than %u tracepoints: name fewer", DT_EVENTS_MAX);
		struct error *error = describe_event(tracepoint, &type);
		if (error)
			return error;
		type.id = (uint32_t)session->types.count;
		tracepoint->probe.event.id = type.id;
		if (!vec_push(&session->types, type))
			return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}
