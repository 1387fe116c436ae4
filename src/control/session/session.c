#include "session.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "detach.h"
#include "control/exits/exits.h"
#include "info.h"
#include "garbage.h"
#include "place.h"
#include "control/session/memory/site_notes.h"
#include "control/session/own_probes/fencing.h"
#include "control/session/own_probes/library_notice.h"
#include "control/session/own_probes/own_probes.h"
#include "control/session/own_probes/traps.h"
#include "control/session/own_probes/unwinding.h"
#include "control/session/processes/children.h"
#include "control/session/processes/process_names.h"
#include "control/session/processes/process_lookup.h"
#include "control/session/processes/thread_liveness.h"
#include "control/session/state/switches.h"
#include "control/session/processes/follow_state.h"
#include "recording.h"
#include "session_modules.h"
#include "control/tracers/call/call_tracer.h"
#include "control/tracers/dispatch.h"
#include "control/tracers/log/log_tracer.h"
#include "control/tracers/sync/sync_tracer.h"
#include "control/values/describe/stable_memory.h"
#include "tracepoints.h"
#include "wake.h"

#define LEAVE_NS 1000000000ULL

/* The parts of a session. */
static const struct {
	bool (*create)(struct session *session); /* false: out of memory */
	void (*free)(struct session *session); /* also if `create` failed or wasn't called */
} parts[] = {
	{ tracepoints_create, tracepoints_destroy },
	{ tracers_create, tracers_free },
	{ exits_create, exits_free },
	{ traps_create, traps_free },
	{ unwinding_create, unwinding_free },
	{ library_notice_create, library_notice_free },
	{ place_create, place_free },
	{ site_notes_create, site_notes_free },
	{ garbage_create, garbage_destroy },
	{ recording_create, recording_free },
	{ children_create, children_free },
	{ thread_liveness_create, thread_liveness_free },
	{ process_lookup_create, process_lookup_free },
	{ follow_create, follow_free },
	{ process_names_create, process_names_free },
};

struct error *session_create(struct proc *proc, const struct session_options *options,
			     struct session **ret_session)
{
	assert(proc);
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return error_new(ERROR_FAILED, "out of memory");
	session->proc = proc;
	session->options = *options;
	session->types = &session->own_types;
	session->stopped = options->stopped;
	if (session->stopped)
		session->pauses =
			(struct reader_pauses){ .items = { { 0, UINT64_MAX } }, .count = 1 };
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i].create(session))
			continue;
		session_destroy(session);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_session = session;
	return NULL;
}

static void forget_places(struct session *session)
{
	for (size_t i = 0; i < session->requests.count; i++)
		places_free(&session->requests.items[i]->places);
	modules_free(&session->modules);
	modules_free(&session->gone);
}

void session_destroy(struct session *session)
{
	if (!session)
		return;
	wake_free(session->wake);
	for (size_t i = 0; i < SESSION_GUESTS && session->guests[i]; i++) {
		if (session->guests[i]->free)
			session->guests[i]->free(session);
	}
	reader_destroy(session->reader);
	agent_free(session->agent);
	garbage_free(session);
	if (session->code)
		near_pool_destroy(session->code);
	tracepoints_free(session);
	own_probes_free(&session->own_probes);
	vec_free(&session->handlers_due);
	latency_free(&session->latency);
	planner_destroy(session->planner);
	event_types_free(&session->own_types);
	forget_places(session);
	for (size_t i = 0; i < session->requests.count; i++)
		request_drop(session->requests.items[i]);
	vec_free(&session->requests);
	vec_free(&session->processes);
	vec_free(&session->free_counters);
	vec_free(&session->unused_ids);
	free(session->found.items);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		parts[i].free(session);
	free(session->command_line);
	free(session);
}

struct error *session_resolve(struct session *session)
{
	forget_places(session);
	struct error *error = session_modules_start(session);

	for (size_t i = 0; i < session->requests.count && !error; i++) {
		struct request *request = session->requests.items[i];

		error = request_resolve(request, session->proc, &session->modules);
		if (session_may_lack(session))
			error = follow_note_missing(session, i, error);
		if (error && request->spec.wait) {
			error_free(error);
			error = NULL;
		}
	}
	return error;
}

/* Makes tracepoints of all requests. With several programs, a request may have no place here. */
static struct error *make_tracepoints(struct session *session)
{
	struct error *error = NULL;

	for (size_t i = 0; i < session->requests.count && !error; i++) {
		struct request *request = session->requests.items[i];

		if (request->places.count || !session_may_lack(session))
			error = tracepoints_make(session, request, NULL, &session->tracepoints);
	}
	return error;
}

struct error *session_begin(struct session *session, struct stop *held)
{
	assert(!session->begun);
	struct session_summary ignored = { 0 };
	struct error *error = session->modules.count ? NULL : session_modules_start(session);

	if (!error)
		error = make_tracepoints(session);
	if (!error)
		error = place_list(session, &session->tracepoints, held);
	session->begun = !error;
	assert(error || (session->agent && session->planner));
	if (!error)
		return NULL;
	if (!held)
		error_free(detach_all(session, &ignored));
	if (session->writer && !session->parent && !session->reopened)
		writer_discard(take_ptr(&session->writer));
	return error;
}

/* The time until the next step: a guest may want it sooner, and handlers that wait for probes. */
static unsigned sooner(const struct session *session, unsigned timeout_ms)
{
	uint64_t now = now_ns(), by = session->step_by;

	if (session->handlers_due.count && (!by || by > session->loads_next))
		by = session->loads_next ? session->loads_next : now;
	if (!by || by >= now + timeout_ms * 1000000ULL)
		return timeout_ms;
	return by > now ? (unsigned)((by - now) / 1000000) + 1 : 0;
}

struct error *session_step(struct session *session, unsigned timeout_ms)
{
	recording_wait(session, sooner(session, timeout_ms));
	struct error *error = session_modules_step(session);
	if (!error)
		session_watch_handlers(session);
	fencing_step(session, now_ns());
	stable_memory_step(session, now_ns());
	garbage_step(session, now_ns());
	exits_grow(session, now_ns());
	exits_watch(session, now_ns());
	exits_open_look(session, now_ns());
	if (!error)
		error = recording_step(session);
	session_look(session);
	/* after the reading: a thread that asks later raises `wake` again */
	for (size_t i = 0; i < SESSION_GUESTS && session->guests[i]; i++) {
		if (session->guests[i]->step)
			session->guests[i]->step(session, now_ns());
	}
	return error ? error : wake_arm(session);
}

bool session_has_places(const struct session *session)
{
	for (size_t i = 0; i < session->requests.count; i++) {
		if (session->requests.items[i]->places.count)
			return true;
	}
	return false;
}

struct error *session_missing(struct session *session)
{
	for (size_t i = 0; i < session->follow->requests.count; i++) {
		struct follow_request *request = &session->follow->requests.items[i];

		if (!request->found && request->missing)
			return take_ptr(&request->missing);
	}
	return NULL;
}

bool session_ended(const struct session *session)
{
	for (size_t i = 0; i < session->follow->execs.count; i++) {
		const struct proc *joined = session->follow->execs.items[i].joined;

		if (joined && proc_is_alive(joined))
			return false;
	}
	return !proc_is_alive(session->proc);
}

bool session_has_offspring(const struct session *session)
{
	bool found = session->agent && children_are_left(session);

	for (size_t i = 0; i < session->follow->execs.count && !found; i++) {
		const struct session *exec = session->follow->execs.items[i].session;

		found = (proc_is_alive(exec->proc) && session_may_have_code(exec, exec->proc)) ||
			children_are_left(exec);
	}
	return found;
}

/* Does the target's text still hold our bytes? Then something kept us from stopping its threads. */
static bool has_probes_left(const struct session *session)
{
	if (!session->agent || !session->planner || !proc_is_alive(session->proc) ||
	    !session_may_have_code(session, session->proc))
		return false;
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		if (planner_site(session->planner, i)->patch.state == PATCH_PLACED)
			return true;
	}
	return false;
}

/* Switches off what can't be removed, which needs no stop: nobody will read the buffers any more.
 * No thread waits for room in them. The next controller knows that no event is unwritten. */
static void leave_switched_off(struct session *session, struct session_summary *summary)
{
	size_t length = strlen(summary->why);

	assert(session->agent->control && session->agent->pool);
	session->stopped = true;
	for (size_t i = 0; i < session->tracepoints.count; i++)
		switches_write(session, session->tracepoints.items[i]);
	__atomic_store_n(&session->agent->pool->expired, 1, __ATOMIC_RELAXED);
	__atomic_or_fetch(&session->agent->control->flags, DT_ENDED, __ATOMIC_RELAXED);
	summary->probes_left = summary->left = true;
	snprintf(summary->why + length, sizeof(summary->why) - length,
		 " (its probes are off; 'dyntrace detach %d' removes them later)",
		 session->proc->pid);
}

struct error *session_end(struct session *session, struct session_summary *ret_summary)
{
	struct session_summary summary = { 0 };

	info_ended(session);
	session_look(session);
	for (size_t i = 0; i < SESSION_GUESTS && session->guests[i]; i++) {
		if (session->guests[i]->end)
			session->guests[i]->end(session, &summary);
	}
	struct error *error = detach_all(session, &summary);
	exits_open_end(session);
	if (has_probes_left(session))
		leave_switched_off(session, &summary);
	struct error *writing = recording_finish(session, &summary);

	summary.late_libraries = library_notice_late(session);
	summary.suspended = session->proc->suspended;
	if (session->clock.frequency)
		summary.recorded_ns = (uint64_t)((double)session->recorded * 1e9 /
						 (double)session->clock.frequency);
	*ret_summary = summary;
	if (error)
		error_free(writing);
	return error ? error : writing;
}

struct error *session_leave(struct session *session, uint64_t until, bool *ret_unfinished)
{
	uint64_t end = now_ns() + LEAVE_NS;
	struct error *error = session_flush(session);

	assert(session->begun && !session->parent);
	*ret_unfinished = false;
	while (!error && session->reader && reader_unfinished(session->reader) <= until) {
		*ret_unfinished = now_ns() >= end;
		if (*ret_unfinished)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		error = session_flush(session);
	}
	log_tracer_flush(session, 0, true);
	wake_free(take_ptr(&session->wake));
	reader_destroy(take_ptr(&session->reader));
	struct error *closing = session->writer ? writer_suspend(take_ptr(&session->writer)) : NULL;
	if (error)
		error_free(closing);
	else
		error = closing;
	agent_free(take_ptr(&session->agent));
	return error;
}

/* ---- libraries of probe functions
 * ------------------------------------------------------------- */

/* Maps the memory of the tracer call, if no tracepoint needed it yet. */
static struct error *map_now(struct session *session)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;

	if (call_tracer_is_mapped(session))
		return NULL;
	struct error *error = stop_one(session->proc, STOP_TIMEOUT_MS, &stop);
	return error ? error : call_tracer_map(session, stop);
}

struct error *session_load(struct session *session, const char *path)
{
	struct error *error = map_now(session);

	return error ? error : call_tracer_open(session, path);
}

struct error *session_unload(struct session *session, const char *path)
{
	struct library *library;
	struct error *error = call_tracer_find(session, path, &library);

	if (error)
		return error;
	if (call_tracer_uses(&session->tracepoints, library))
		return error_new(ERROR_REFUSED, "%s is used by tracepoints (remove them first)",
				 path);
	garbage_collect(session);
	if (call_tracer_uses(&session->retired, library))
		return error_new(ERROR_REFUSED, "a thread may still be in %s (try again)", path);
	return call_tracer_close(session, library);
}

void session_look(struct session *session)
{
	call_tracer_look(session);
	sync_tracer_look(session);
}

/* ---- questions
 * --------------------------------------------------------------------------------- */

uint64_t session_begun_ns(const struct session *session)
{
	return session->begun_ns;
}

double session_overhead(const struct session *session)
{
	return session->budget ? session->overhead : -1;
}

uint64_t session_stopped_us(const struct session *session)
{
	return session->stopped_us;
}

bool session_names_loader(const struct session *session)
{
	for (size_t i = 0; i < session->requests.count; i++) {
		const struct places *places = &session->requests.items[i]->places;

		for (size_t j = 0; j < places->count; j++) {
			if (!places->items[j].module->is_executable)
				return true;
		}
	}
	return false;
}

bool session_goes_on(const struct session *session)
{
	return session->reopened;
}

void session_set_directory(struct session *session, struct trace_dir *directory)
{
	session->options.directory = directory;
}

taddr session_exits_from(struct session *session)
{
	return exits_from(session);
}

struct error *session_tracers_from(struct session *session, taddr *ret_from)
{
	return tracers_from(session, ret_from);
}

size_t session_children_left(const struct session *session, const char **ret_why)
{
	return children_left(session, ret_why);
}
