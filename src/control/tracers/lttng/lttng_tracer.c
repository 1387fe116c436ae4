/*
 * lttng_tracer.c - tracepoints of the tracer lttng.
 *
 * All tracepoints that the user gave no name share three events, whose only field is the address of
 * the hit, unless the user wants typed events.
 */
#include "lttng_tracer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/tracers/code/foreign_code.h"
#include "control/session/own_probes/library_notice.h"
#include "lttng_unheard.h"

const char *const lttng_tracer_plain_names[LTTNG_PLAIN] = { "tracepoint_hit", "function_entry",
							    "function_exit" };

/* ---- gates ----------------------------------------------------------------------------------- */

struct error *lttng_tracer_map(struct session *session, struct stop *stop)
{
	static const struct {
		enum foreign_state state;
		enum load_part part;
	} kinds[LTTNG_GATES] = { { FOREIGN_VECTORS, LOAD_GATE_LTTNG },
				 { FOREIGN_LOW, LOAD_GATE_LTTNG_LOW } };
	struct lttng_tracer *lttng = session->lttng;
	struct load_paper *paper = &session->loading->paper;
	taddr inside = taddr_add(session->agent->state_at, offsetof(struct dt_state, foreign));
	struct error *error = lttng->gates[0].v ?
				      NULL :
				      load_map_paper(paper, stop, session->agent);

	for (size_t i = 0; i < LTTNG_GATES && !error && !lttng->gates[i].v; i++) {
		uint32_t at = LOAD_PART_AT(kinds[i].part);

		if (!foreign_write_gate(kinds[i].state, inside, paper->here + at,
					FOREIGN_GATE_ROOM))
			return error_new(ERROR_FAILED,
					 "the code that saves registers doesn't fit its room");
		lttng->gates[i] = taddr_add(paper->there, at + FOREIGN_GATE_ENTRY);
	}
	return error;
}

/* ---- events ---------------------------------------------------------------------------------- */

struct wanted {
	struct lttng_event *items;
	size_t count, room;
};

/* A name that was made from the location may have colons, but no provider. */
struct lttng_event lttng_tracer_event(const struct session *session,
				      const struct tracepoint *tracepoint, uint32_t which)
{
	const struct request *request = tracepoint->request;
	const struct event_type *type =
		&session->types->items[tracepoint->probe.event.id + which];

	assert(tracepoint->probe.event.id + which < session->types->count);
	return (struct lttng_event){ .provider = request->spec.name ? NULL : LTTNG_PROVIDER,
				     .name = type->name,
				     .identity = &request->lttng,
				     .address = type->address,
				     .type = type };
}

static bool has_field(const struct event_type *type, const char *name, size_t length)
{
	for (size_t i = 0; i < type->field_count; i++) {
		const struct event_field *field = &type->fields[i];

		if (field->type != FIELD_END && strlen(field->name) == length &&
		    !strncmp(field->name, name, length))
			return true;
	}
	return false;
}

/* Refuses nowrite=FIELD if no event has the field. Functions of a glob may differ. */
static struct error *check_hidden(struct session *session, const struct tracepoint *tracepoint)
{
	const struct lttng_identity *identity = &tracepoint->request->lttng;
	size_t length;

	if (tracepoint->request->location.is_glob)
		return NULL;
	for (const char *at = NULL;
	     (at = lttng_identity_next_hidden(identity, at, &length)) != NULL;) {
		bool found = strlen("address") == length && !strncmp(at, "address", length);

		for (uint32_t i = 0; i <= tracepoint->probe.event.exit; i++) {
			const struct lttng_event event =
				lttng_tracer_event(session, tracepoint, i);

			found |= has_field(event.type, at, length);
		}
		if (!found)
			return error_new(ERROR_USAGE, "nowrite: %s has no field '%.*s'",
					 tracepoint->name, (int)length, at);
	}
	return NULL;
}

/* Adds the entry's event, then the exit's. */
static struct error *add_named(struct session *session, const struct tracepoint *tracepoint,
			       struct wanted *wanted)
{
	struct error *error = check_hidden(session, tracepoint);

	for (uint32_t i = 0; i <= tracepoint->probe.event.exit && !error; i++) {
		if (!vec_push(wanted, lttng_tracer_event(session, tracepoint, i)))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	return error;
}

static struct error *define_plain(struct session *session)
{
	struct lttng_tracer *tracer = session->lttng;
	struct lttng_event events[LTTNG_PLAIN];

	if (tracer->plain[0].event)
		return NULL;
	for (size_t i = 0; i < LTTNG_PLAIN; i++)
		events[i] = (struct lttng_event){ .provider = LTTNG_PLAIN_PROVIDER,
						  .name = lttng_tracer_plain_names[i] };
	struct error *error = lttng_define(&tracer->lttng, session->agent,
					   &session->loading->paper, events, LTTNG_PLAIN);
	for (size_t i = 0; i < LTTNG_PLAIN && !error; i++)
		tracer->plain[i] = events[i].result;
	return error;
}

static void set_foreign(struct session *session, struct tracepoint *tracepoint,
			const struct dt_bridge_result *entry, const struct dt_bridge_result *exit)
{
	struct tramp_foreign *foreign = &tracepoint->probe.event.foreign;

	assert(tracepoint->lttng && session->lttng->gates[0].v);
	foreign->function = session->lttng->lttng.hit;
	foreign->gate = session->lttng->gates[loading_gate(session, tracepoint)];
	foreign->argument = taddr_of(entry->event);
	foreign->enabled = taddr_of(entry->enabled);
	foreign->address = tracepoint->probe.place.address;
	foreign->own_only = !session->options.follow_fork;
	if (exit) {
		foreign->exit_argument = taddr_of(exit->event);
		foreign->exit_enabled = taddr_of(exit->enabled);
	}
	tracepoint->lttng->events[0] = entry->event;
	tracepoint->lttng->events[1] = exit ? exit->event : 0;
}

static void use_plain(struct session *session, struct tracepoint *tracepoint)
{
	const struct dt_bridge_result *plain = session->lttng->plain;
	bool has_exit = tracepoint->probe.event.exit;

	if (tracepoint->kind == TRACEPOINT_BARE)
		set_foreign(session, tracepoint, &plain[0], NULL);
	else
		set_foreign(session, tracepoint, &plain[1], has_exit ? &plain[2] : NULL);
	tracepoint->lttng->events[0] = tracepoint->lttng->events[1] = 0; /* not its own */
}

static bool is_new(const struct tracepoint *tracepoint)
{
	return tracepoint_is(tracepoint, TRACER_LTTNG) &&
	       !tracepoint->probe.event.foreign.function.v;
}

static struct error *make_use(struct tracepoint *tracepoint)
{
	tracepoint->lttng = calloc(1, sizeof(*tracepoint->lttng));
	return tracepoint->lttng ? NULL : error_new(ERROR_FAILED, "out of memory");
}

static struct error *define_named(struct session *session, const struct tracepoint_list *list)
{
	struct lttng_tracer *tracer = session->lttng;
	struct wanted wanted = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		if (is_new(list->items[i]) && request_is_typed(list->items[i]->request))
			error = add_named(session, list->items[i], &wanted);
	}
	if (!error && wanted.count)
		error = lttng_define(&tracer->lttng, session->agent, &session->loading->paper,
				     wanted.items, wanted.count);
	for (size_t i = 0, next = 0; i < list->count && !error; i++) {
		struct tracepoint *tracepoint = list->items[i];
		bool has_exit = tracepoint->probe.event.exit;

		if (!is_new(tracepoint) || !request_is_typed(tracepoint->request))
			continue;
		set_foreign(session, tracepoint, &wanted.items[next].result,
			    has_exit ? &wanted.items[next + 1].result : NULL);
		next += 1 + has_exit;
		assert(next <= wanted.count);
	}
	vec_free(&wanted);
	return error;
}

struct error *lttng_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				   struct stop *held)
{
	struct lttng_tracer *tracer = session->lttng;
	struct error *error = NULL;

	if (!tracepoint_list_uses(list, TRACER_LTTNG))
		return NULL;
	for (size_t i = 0; i < list->count && !error; i++) {
		if (tracepoint_is(list->items[i], TRACER_LTTNG))
			error = loading_check_place(session, list->items[i]);
		if (!error && is_new(list->items[i]) && !list->items[i]->lttng)
			error = make_use(list->items[i]);
	}
	bool waits = library_notice_hold(session);
	session->agent->control->flags |= DT_BRIDGED;
	if (!error)
		error = lttng_start(&tracer->lttng, session->agent, held, &session->loading->paper);
	if (!error)
		error = define_plain(session); /* loads liblttng-ust */
	library_notice_go_on(session, waits);
	if (!error)
		error = define_named(session, list);
	for (size_t i = 0; i < list->count && !error; i++) {
		if (is_new(list->items[i]))
			use_plain(session, list->items[i]);
		if (tracepoint_is(list->items[i], TRACER_LTTNG))
			lttng_unheard_look(session, list->items[i]);
	}
	return error_wrap(error, "tracer 'lttng'");
}

void lttng_tracer_forget(struct session *session, const struct tracepoint_list *list)
{
	struct lttng_tracer *tracer = session->lttng;

	for (size_t i = 0; i < list->count; i++) {
		struct lttng_use *use = list->items[i]->lttng;

		for (size_t j = 0; j < 2 && use; j++) {
			if (use->events[j] && tracer->lttng.started)
				error_free(lttng_forget(&tracer->lttng, session->agent,
							&session->loading->paper, use->events[j]));
			use->events[j] = 0;
		}
	}
}

void lttng_tracer_leave(struct session *session)
{
	error_free(lttng_leave(&session->lttng->lttng, session->agent, &session->loading->paper));
}

bool lttng_tracer_has_thread(const struct session *session)
{
	return session->lttng->lttng.started;
}

void lttng_tracer_free_use(struct tracepoint *tracepoint)
{
	free(tracepoint->lttng);
}

bool lttng_tracer_create(struct session *session)
{
	session->lttng = calloc(1, sizeof(*session->lttng));
	return session->lttng != NULL;
}

void lttng_tracer_free(struct session *session)
{
	free(session->lttng);
}
