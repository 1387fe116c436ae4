/*
 * types.c
 *
 * In one trace an id has one meaning for ever. A tracepoint that was removed and is added again has
 * events of the same type: it gets its old id, once nothing can record under that id any more. So
 * adding and removing the same tracepoints thousands of times needs neither more ids nor longer
 * metadata. Ids of exits are bound to return stubs for life (H5), and aren't given again.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "info.h"
#include "control/tracers/log/log_tracer.h"
#include "types.h"
#include "control/values/describe/describe.h"

static struct error *describe_event(struct tracepoint *tracepoint, struct event_type *ret_type)
{
	const struct tramp_event *event = &tracepoint->probe.event;
	const char *suffix = tracepoint->kind == TRACEPOINT_BARE ? "" : "_entry";
	struct event_type type = { .size = event->size,
				   .has_exit = event->exit,
				   .encloses = tracepoint->request->spec.encloses,
				   .address = tracepoint->probe.place.address.v };

	if (asprintf(&type.name, "%s%s", tracepoint->name, suffix) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	describe_give(tracepoint, &type);
	if (!tracepoint->tracer->uses_pool)
		type.size = 0; /* no such events in the trace */
	*ret_type = type;
	return NULL;
}

static struct error *make_exit_type(struct tracepoint *tracepoint, struct event_type *ret_type)
{
	struct event_type type = { .address = tracepoint->probe.place.address.v };

	if (asprintf(&type.name, "%s_exit", tracepoint->name) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	describe_give_exit(tracepoint, &type);
	type.is_pair = tramp_is_paired(&tracepoint->probe.event);
	if (!tracepoint->tracer->uses_pool)
		type.size = 0;
	*ret_type = type;
	return NULL;
}

static void free_type(struct event_type *type)
{
	event_fields_free(type->fields, type->field_count);
	free(type->name);
}

/* ---- ids of removed tracepoints ------------------------------------------------------------- */

static bool is_same(const struct event_type *a, const struct event_type *b)
{
	return a->log == b->log && a->address == b->address && event_type_is_same(a, b);
}

/* Takes an unused id of the same type. `exit`: the type of the next id; NULL: any. */
static bool find_unused(struct session *session, const struct event_type *type,
			const struct event_type *exit, uint32_t *ret_id)
{
	const struct event_types *types = session->types;

	for (size_t i = 0; i < session->unused_ids.count; i++) {
		uint32_t id = session->unused_ids.items[i];

		assert(id < types->count);
		if (!is_same(&types->items[id], type) ||
		    (exit && (id + 1 >= types->count || !is_same(&types->items[id + 1], exit))))
			continue;
		session->unused_ids.count--;
		memmove(session->unused_ids.items + i, session->unused_ids.items + i + 1,
			(session->unused_ids.count - i) * sizeof(id));
		*ret_id = id;
		return true;
	}
	return false;
}

void types_give_back(struct session *session, const struct tracepoint *tracepoint)
{
	assert(!tracepoint->has_type || tracepoint->probe.event.id < session->types->count);
	/* if it can't be noted, the id isn't used again */
	if (tracepoint->has_type && session->types == &session->own_types)
		vec_push(&session->unused_ids, tracepoint->probe.event.id);
}

/* ---- new ids -------------------------------------------------------------------------------- */

struct error *types_add(struct session *session, struct event_type *type)
{
	struct error *error = NULL;

	if (session->types->count >= DT_EVENTS_MAX)
		error = error_new(ERROR_FAILED,
				  "more than %u types of events in one trace (name fewer places)",
				  DT_EVENTS_MAX);
	type->id = (uint32_t)session->types->count;
	if (!error && !vec_push(session->types, *type))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error)
		free_type(type);
	else
		session->types_announced = false;
	return error;
}

/* Gives the tracepoint new ids. The exit's id follows the entry's. */
static struct error *add_types(struct session *session, struct tracepoint *tracepoint,
			       struct event_type *type, struct event_type *exit)
{
	tracepoint->probe.event.id = (uint32_t)session->types->count;
	struct error *error = types_add(session, type);

	tracepoint->has_type = !error;
	if (exit && error)
		free_type(exit);
	return error || !exit ? error : types_add(session, exit);
}

static struct error *assign(struct session *session, struct tracepoint *tracepoint)
{
	assert(tracepoint->probe.site && !tracepoint->waits && !tracepoint->has_type);
	struct tramp_event *event = &tracepoint->probe.event;
	struct event_type type, exit_type, *exit = event->exit ? &exit_type : NULL;
	uint16_t log = 0;
	struct error *error = log_tracer_open(session, tracepoint, &log);

	if (!error)
		error = describe_event(tracepoint, &type);
	if (error)
		return error;
	if (exit && (error = make_exit_type(tracepoint, exit))) {
		free_type(&type);
		return error;
	}
	type.log = log;
	if (exit)
		exit->log = log;
	if (find_unused(session, &type, exit, &event->id)) {
		free_type(&type);
		if (exit)
			free_type(exit);
		tracepoint->has_type = true;
		info_start(session, tracepoint);
	} else {
		error = add_types(session, tracepoint, &type, exit);
	}
	assert(error || event->id < session->types->count);
	describe_set_ids(tracepoint);
	return error;
}

struct error *types_assign(struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];
		struct error *error = tracepoint->probe.site && !tracepoint->has_type ?
					      assign(session, tracepoint) :
					      NULL;

		if (error)
			return error;
	}
	return NULL;
}
