#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../base/cleanup.h"
#include "internal.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

struct error *session_create(struct proc *proc, const struct session_options *options,
			     struct session **ret_session)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return error_new(ERROR_FAILED, "out of memory");
	session->proc = proc;
	session->options = *options;
	session->types = &session->own_types;
	*ret_session = session;
	return NULL;
}

static void forget_places(struct session *session)
{
	for (size_t i = 0; i < session->requests.count; i++)
		places_free(&session->requests.items[i].places);
	modules_free(&session->modules);
}

void session_destroy(struct session *session)
{
	if (!session)
		return;
	reader_destroy(session->reader);
	agent_free(session->agent);
	change_free(session);
	if (session->code)
		near_pool_destroy(session->code);
	tracepoints_free(session);
	watch_free(session);
	exits_free(session);
	latency_free(&session->latency);
	planner_destroy(session->planner);
	event_types_free(&session->own_types);
	forget_places(session);
	for (size_t i = 0; i < session->requests.count; i++)
		location_clear(&session->requests.items[i].location);
	vec_free(&session->requests);
	error_free(session->failed);
	free(session->found);
	free(session->command_line);
	for (size_t i = 0; i < session->loaded.count; i++)
		free(session->loaded.items[i]);
	vec_free(&session->loaded);
	free(session);
}

struct error *session_add(struct session *session, const char *location, enum tracepoint_kind kind)
{
	struct request request = { .kind = kind };
	struct error *error = location_parse(location, &request.location);

	if (error)
		return error;
	if (!vec_push(&session->requests, request)) {
		location_clear(&request.location);
		return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

static struct error *read_modules(struct session *session)
{
	struct maps maps = { 0 };
	struct error *error = maps_read(session->proc, &maps);

	if (!error)
		error = modules_read(session->proc, &maps, &session->modules);
	maps_free(&maps);
	return error;
}

struct error *session_resolve(struct session *session)
{
	forget_places(session);
	struct error *error = read_modules(session);

	for (size_t i = 0; i < session->requests.count && !error; i++) {
		struct request *request = &session->requests.items[i];

		error = locate(session->proc, &session->modules, &request->location,
			       request->kind != TRACEPOINT_BARE, &request->places);
	}
	return error;
}

static struct error *prepare_latency(struct session *session)
{
	if (!latency_init(&session->latency, session->types))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		const struct probe *probe = &session->tracepoints.items[i]->probe;

		if (probe->site && probe->event.exit)
			latency_add(&session->latency, probe->event.id);
	}
	return NULL;
}

struct error *session_begin(struct session *session, struct stop *held)
{
	struct session_summary ignored = { 0 };
	struct error *error = tracepoints_create(session);

	if (!error)
		error = place_all(session, held);
	if (!error)
		error = prepare_latency(session);
	if (!error)
		error = recording_open(session);
	if (!error)
		return NULL;
	if (!held)
		error_free(place_undo(session, &ignored));
	if (session->writer)
		writer_discard(take_ptr(&session->writer));
	return error;
}

struct error *session_step(struct session *session, unsigned timeout_ms)
{
	recording_wait(session, timeout_ms);
	exits_grow(session, now_ns());
	exits_watch(session, now_ns());
	return recording_step(session);
}

bool session_ended(const struct session *session)
{
	return !proc_is_alive(session->proc);
}

struct error *session_end(struct session *session, struct session_summary *ret_summary)
{
	struct session_summary summary = { 0 };
	struct error *error = place_undo(session, &summary);
	struct error *writing = recording_finish(session, &summary);

	*ret_summary = summary;
	if (error)
		error_free(writing);
	return error ? error : writing;
}

uint64_t session_stopped_us(const struct session *session)
{
	return session->stopped_us;
}

size_t session_tracepoint_count(const struct session *session)
{
	return session->tracepoints.count;
}

/* What the target counted while it ran, and what was found when it was left. */
static void tell_exits(const struct session *session, const struct tracepoint *tracepoint,
		       struct tracepoint_info *info)
{
	uint32_t id = tracepoint->probe.event.id;
	const struct event_type *exit = &session->types->items[id + 1];
	const struct dt_pool *pool = session->agent->pool;

	info->has_exit = true;
	info->exits = exit->hits;
	info->exits_lost = exit->lost;
	info->missed = pool->missed[id];
	info->unwound = (uint64_t)pool->unwound[id] + session->exits.unwound[id];
	uint64_t ended = info->exits + info->exits_lost + info->missed + info->unwound;
	info->inside = info->hits > ended ? info->hits - ended : 0;
	latency_times(&session->latency, id, &info->times);
}

struct tracepoint_info session_tracepoint(const struct session *session, size_t index)
{
	const struct tracepoint *tracepoint = session->tracepoints.items[index];
	const struct probe *probe = &tracepoint->probe;
	struct tracepoint_info info = { .name = tracepoint->name, .address = probe->place.address };

	if (probe->refusal) {
		info.refusal = error_text(probe->refusal);
		return info;
	}
	info.how = probe->site ? site_tactic(probe->site) : "removed";
	info.hits = session->types->items[probe->event.id].hits;
	info.lost = session->types->items[probe->event.id].lost;
	if (tracepoint->exit_refusal)
		info.exit_refusal = error_text(tracepoint->exit_refusal);
	if (probe->event.exit && session->agent && session->exits.unwound)
		tell_exits(session, tracepoint, &info);
	return info;
}

bool session_names_loader(const struct session *session)
{
	for (size_t i = 0; i < session->requests.count; i++) {
		const struct places *places = &session->requests.items[i].places;

		for (size_t j = 0; j < places->count; j++) {
			if (!places->items[j].module->is_executable)
				return true;
		}
	}
	return false;
}
