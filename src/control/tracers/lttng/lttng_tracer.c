/*
 * lttng_tracer.c - tracepoints of the tracer lttng: their events in the target, and what their
 * trampolines call.
 *
 * Without a name of the user's a tracepoint shares three events with all others, of which each has
 * the address that was hit.
 */
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/tracers/code/foreign_code.h"
#include "control/session/internal.h"

static const char *const plain_names[TRACERS_PLAIN] = { "tracepoint_hit", "function_entry",
							"function_exit" };

/* What may be called with the loader's or the allocator's locks held can't call what takes them. */
struct error *lttng_tracer_check_place(const struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	const char *name = place->module ? place->module->name : "";
	bool is_entry = place->symbol && place->symbol->global &&
			place->address.v == place->module->bias.v + place->symbol->address;

	if (!strncmp(name, "ld-linux", strlen("ld-linux")) ||
	    !strncmp(name, "ld-musl", strlen("ld-musl")))
		return error_new(
			ERROR_REFUSED,
			"tracer '%s' can't be used in the loader: what it calls needs the loader's locks",
			tracepoint->tracer->name);
	if (!strcmp(name, "libc.so.6") && !is_entry)
		return error_new(
			ERROR_REFUSED,
			"tracer '%s' can be used in libc only at the start of functions that it exports: "
			"elsewhere locks may be held that what it calls needs",
			tracepoint->tracer->name);
	if (!strncmp(name, "liblttng-ust", strlen("liblttng-ust")) ||
	    !strncmp(name, "libdyntrace-", strlen("libdyntrace-")))
		return error_new(ERROR_REFUSED, "tracer '%s' can't trace itself",
				 tracepoint->tracer->name);
	return NULL;
}

/* ---- events ---------------------------------------------------------------------------------- */

struct wanted {
	struct lttng_event *items;
	size_t count, room;
};

/* The entry's, then the exit's. */
static bool add_named(struct session *session, const struct tracepoint *tracepoint,
		      struct wanted *wanted)
{
	uint32_t id = tracepoint->probe.event.id;
	bool added = true;

	for (uint32_t i = 0; i <= tracepoint->probe.event.exit; i++) {
		const struct event_type *type = &session->types->items[id + i];

		added &= vec_push(wanted, (struct lttng_event){ .provider = LTTNG_PROVIDER,
								.name = type->name,
								.address = type->address,
								.type = type });
	}
	return added;
}

static struct error *define_plain(struct session *session)
{
	struct tracers *tracers = &session->tracers;
	struct lttng_event events[TRACERS_PLAIN];

	if (tracers->plain[0].event)
		return NULL;
	for (size_t i = 0; i < TRACERS_PLAIN; i++)
		events[i] = (struct lttng_event){ .provider = LTTNG_PLAIN_PROVIDER,
						  .name = plain_names[i] };
	struct error *error = lttng_define(&tracers->lttng, session->agent, &tracers->paper, events,
					   TRACERS_PLAIN);
	for (size_t i = 0; i < TRACERS_PLAIN && !error; i++)
		tracers->plain[i] = events[i].result;
	return error;
}

static void set_foreign(struct session *session, struct tracepoint *tracepoint,
			const struct dt_bridge_result *entry, const struct dt_bridge_result *exit)
{
	struct tramp_foreign *foreign = &tracepoint->probe.event.foreign;

	foreign->function = session->tracers.lttng.hit;
	foreign->gate = session->tracers.gates_lttng[tracers_gate(session, tracepoint)];
	foreign->argument = taddr_of(entry->event);
	foreign->enabled = taddr_of(entry->enabled);
	foreign->address = tracepoint->probe.place.address;
	foreign->own_only = !session->options.follow_fork;
	if (exit) {
		foreign->exit_argument = taddr_of(exit->event);
		foreign->exit_enabled = taddr_of(exit->enabled);
	}
	tracepoint->bridge_events[0] = entry->event;
	tracepoint->bridge_events[1] = exit ? exit->event : 0;
}

static void use_plain(struct session *session, struct tracepoint *tracepoint)
{
	const struct dt_bridge_result *plain = session->tracers.plain;
	bool has_exit = tracepoint->probe.event.exit;

	if (tracepoint->kind == TRACEPOINT_BARE)
		set_foreign(session, tracepoint, &plain[0], NULL);
	else
		set_foreign(session, tracepoint, &plain[1], has_exit ? &plain[2] : NULL);
	tracepoint->bridge_events[0] = tracepoint->bridge_events[1] = 0; /* not its own */
}

static bool is_new(const struct tracepoint *tracepoint)
{
	return tracers_is(tracepoint, TRACER_LTTNG) && !tracepoint->probe.event.foreign.function.v;
}

static struct error *define_named(struct session *session, const struct tracepoint_list *list)
{
	struct tracers *tracers = &session->tracers;
	struct wanted wanted = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		if (is_new(list->items[i]) && list->items[i]->request->spec.name &&
		    !add_named(session, list->items[i], &wanted))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	if (!error && wanted.count)
		error = lttng_define(&tracers->lttng, session->agent, &tracers->paper, wanted.items,
				     wanted.count);
	for (size_t i = 0, next = 0; i < list->count && !error; i++) {
		struct tracepoint *tracepoint = list->items[i];
		bool has_exit = tracepoint->probe.event.exit;

		if (!is_new(tracepoint) || !tracepoint->request->spec.name)
			continue;
		set_foreign(session, tracepoint, &wanted.items[next].result,
			    has_exit ? &wanted.items[next + 1].result : NULL);
		next += 1 + has_exit;
	}
	vec_free(&wanted);
	return error;
}

struct error *lttng_tracer_prepare(struct session *session, const struct tracepoint_list *list,
				    struct stop *held)
{
	struct tracers *tracers = &session->tracers;
	struct error *error = NULL;

	if (!tracers_uses(list, TRACER_LTTNG))
		return NULL;
	for (size_t i = 0; i < list->count && !error; i++) {
		if (tracers_is(list->items[i], TRACER_LTTNG))
			error = lttng_tracer_check_place(list->items[i]);
	}
	bool waits = library_notice_hold(session);
	session->agent->control->flags |= DT_BRIDGED;
	if (!error)
		error = lttng_start(&tracers->lttng, session->agent, held, &tracers->paper);
	if (!error)
		error = define_plain(session); /* loads liblttng-ust */
	library_notice_go_on(session, waits);
	if (!error)
		error = define_named(session, list);
	for (size_t i = 0; i < list->count && !error; i++) {
		if (is_new(list->items[i]))
			use_plain(session, list->items[i]);
	}
	return error_wrap(error, "tracer 'lttng'");
}

void lttng_tracer_forget(struct session *session, const struct tracepoint_list *list)
{
	struct tracers *tracers = &session->tracers;

	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (tracepoint->has_call)
			__atomic_store_n(&tracers->calls[tracepoint->call_index].enabled, 0,
					 __ATOMIC_RELEASE);
		for (size_t j = 0; j < 2; j++) {
			if (tracepoint->bridge_events[j] && tracers->lttng.started)
				error_free(lttng_forget(&tracers->lttng, session->agent,
							&tracers->paper,
							tracepoint->bridge_events[j]));
			tracepoint->bridge_events[j] = 0;
		}
	}
}
