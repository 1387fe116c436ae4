#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "internal.h"
#include "control/session/takeover/takeover.h"

struct error *session_create(struct proc *proc, const struct session_options *options,
			     struct session **ret_session)
{
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
	*ret_session = session;
	return NULL;
}

static void forget_places(struct session *session)
{
	for (size_t i = 0; i < session->requests.count; i++)
		places_free(&session->requests.items[i]->places);
	modules_free(&session->modules);
}

void session_destroy(struct session *session)
{
	if (!session)
		return;
	wake_free(session->wake);
	follow_free(session);
	old_probes_free(session);
	old_counts_free(&session->old_counts);
	reader_destroy(session->reader);
	agent_free(session->agent);
	change_free(session);
	if (session->code)
		near_pool_destroy(session->code);
	tracepoints_free(session);
	own_probes_free(&session->own_probes);
	traps_free(session);
	exits_free(session);
	latency_free(&session->latency);
	tracers_free(session);
	planner_destroy(session->planner);
	event_types_free(&session->own_types);
	forget_places(session);
	for (size_t i = 0; i < session->requests.count; i++)
		request_drop(session->requests.items[i]);
	vec_free(&session->requests);
	vec_free(&session->free_counters);
	vec_free(&session->unwind_tables);
	vec_free(&session->unused_ids);
	error_free(session->failed);
	free(session->found);
	free(session->command_line);
	for (size_t i = 0; i < session->loaded.count; i++)
		free(session->loaded.items[i]);
	vec_free(&session->loaded);
	free(session);
}

struct error *session_resolve(struct session *session)
{
	forget_places(session);
	struct error *error = modules_start(session);

	for (size_t i = 0; i < session->requests.count && !error; i++) {
		struct request *request = session->requests.items[i];

		error = request_resolve(request, session->proc, &session->modules);
		if (session->options.follow_exec)
			error = follow_note_missing(session, i, error);
		if (error && request->spec.wait) {
			error_free(error);
			error = NULL;
		}
	}
	return error;
}

/* Of all that was added. */
static struct error *make_tracepoints(struct session *session)
{
	struct error *error = NULL;

	for (size_t i = 0; i < session->requests.count && !error; i++) {
		struct request *request = session->requests.items[i];

		if (request->places.count || !session->options.follow_exec)
			error = tracepoints_make(session, request, &session->tracepoints);
	}
	return error;
}

struct error *session_begin(struct session *session, struct stop *held)
{
	struct session_summary ignored = { 0 };
	struct error *error = session->modules.count ? NULL : modules_start(session);

	if (!error)
		error = make_tracepoints(session);
	if (!error)
		error = place_list(session, &session->tracepoints, held);
	session->begun = !error;
	if (!error)
		return NULL;
	if (!held)
		error_free(detach_all(session, &ignored));
	if (session->writer && !session->parent && !session->reopened)
		writer_discard(take_ptr(&session->writer));
	return error;
}

struct error *session_step(struct session *session, unsigned timeout_ms)
{
	recording_wait(session, timeout_ms);
	struct error *error = library_notice_step(session);
	exits_grow(session, now_ns());
	exits_watch(session, now_ns());
	if (!error)
		error = recording_step(session);
	session_look(session);
	follow_step(session, now_ns()); /* behind it: who comes later has raised `wake` */
	return error ? error : wake_arm(session);
}

bool session_ended(const struct session *session)
{
	return !proc_is_alive(session->proc);
}

struct error *session_end(struct session *session, struct session_summary *ret_summary)
{
	struct session_summary summary = { 0 };
	struct takeover takeover;

	error_free(takeover_settle(session, &takeover));
	takeover_give_counts(session);
	tracers_ended(session);
	session_look(session);
	follow_end(session, &summary);
	struct error *error = detach_all(session, &summary);
	struct error *writing = recording_finish(session, &summary);

	summary.late_libraries = session->late_notices;
	*ret_summary = summary;
	if (error)
		error_free(writing);
	return error ? error : writing;
}

uint64_t session_stopped_us(const struct session *session)
{
	return session->stopped_us;
}

size_t session_left_out(const struct session *session, const char **ret_why)
{
	*ret_why = session->left_out_why;
	return session->left_out;
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
