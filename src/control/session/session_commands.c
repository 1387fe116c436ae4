/*
 * session_commands.c - commands of the user while the session records: add, remove and switch
 * tracepoints. Contexts: session_contexts.c.
 *
 * An add is done whole or not at all: if it fails, it leaves neither a name nor a byte in the
 * target.
 */
#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "change.h"
#include "garbage.h"
#include "info.h"
#include "place.h"
#include "session.h"
#include "session_commands.h"
#include "session_modules.h"
#include "control/session/processes/follow_state.h"
#include "control/session/state/switches.h"
#include "control/tracers/count/count_tracer.h"
#include "control/tracers/dispatch.h"
#include "control/tracers/lttng/lttng_unheard.h"
#include "tracepoints.h"

void name_list_free(struct name_list *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	vec_free(names);
}

/* ---- names and globs ------------------------------------------------------------------------- */

struct error *session_find(const struct session *session, const char *name, size_t *ret_index)
{
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		if (strcmp(session->tracepoints.items[i]->name, name) == 0) {
			*ret_index = i;
			return NULL;
		}
	}
	return error_new(ERROR_FAILED, "no tracepoint '%s' (list-tracepoints lists them)", name);
}

bool session_unheard(const struct session *session, const struct name_list *names, char *ret_text,
		     size_t size)
{
	struct tracepoint_list list = { 0 };
	bool enough = true;
	size_t index;

	if (!names)
		return lttng_unheard_tell(session, &session->tracepoints, ret_text, size);
	for (size_t i = 0; i < names->count && enough; i++) {
		_cleanup_error_ struct error *none = session_find(session, names->items[i], &index);

		enough = none || vec_push(&list, session->tracepoints.items[index]);
	}
	bool unheard = enough && lttng_unheard_tell(session, &list, ret_text, size);
	vec_free(&list);
	return unheard;
}

struct error *commands_find(const struct session *session, const char *pattern,
			    struct tracepoint_list *ret_list)
{
	struct tracepoint_list list = { 0 };
	size_t index;
	_cleanup_error_ struct error *none = session_find(session, pattern, &index);
	bool pushed = none || vec_push(&list, session->tracepoints.items[index]);

	for (size_t i = 0; i < session->tracepoints.count && none && pushed; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (fnmatch(pattern, tracepoint->name, 0) == 0)
			pushed = vec_push(&list, tracepoint);
	}
	if (!pushed) {
		vec_free(&list);
		return error_new(ERROR_FAILED, "out of memory");
	}
	if (!list.count)
		return take_ptr(&none);
	*ret_list = list;
	return NULL;
}

/* ---- add ------------------------------------------------------------------------------------- */

void commands_retire(struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];

		tracepoints_drop_name(session, tracepoint);
		if (!tracepoint->has_type) {
			tracepoints_free_one(session, tracepoint);
			continue;
		}
		assert(session->retired.count < session->retired.room); /* tracepoints.c */
		session->retired.items[session->retired.count++] = tracepoint;
	}
}

void commands_replace(struct session *session, struct tracepoint *old, struct tracepoint *heir)
{
	struct tracepoint_list gone = { .items = &old, .count = 1 };

	assert(old != heir && !strcmp(old->name, heir->name));
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		if (session->tracepoints.items[i] == old)
			session->tracepoints.items[i] = heir;
	}
	info_inherit(session, old, heir);
	commands_retire(session, &gone);
	tracepoints_claim_name(session, heir);
}

static struct error *list_names(const struct tracepoint_list *list, struct name_list *ret_names)
{
	struct name_list names = { 0 };

	for (size_t i = 0; i < list->count; i++) {
		char *name = strdup(list->items[i]->name);

		if (!name || !vec_push(&names, name)) {
			free(name);
			name_list_free(&names);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	*ret_names = names;
	return NULL;
}

/* Takes the names of refused tracepoints out. */
static void drop_refused(const struct tracepoint_list *list, struct name_list *names)
{
	size_t kept = 0;

	assert(names->count == list->count);
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->probe.refusal)
			free(names->items[i]);
		else
			names->items[kept++] = names->items[i];
	}
	names->count = kept;
}

/* Closes a trace that was made for tracepoints that couldn't be placed. */
static void close_unused(struct session *session)
{
	reader_destroy(take_ptr(&session->reader));
	if (session->reopened) /* the trace has earlier events */
		error_free(writer_suspend(take_ptr(&session->writer)));
	else if (session->writer)
		writer_discard(take_ptr(&session->writer));
	session->agent->control->output[0] = '\0';
}

struct error *commands_place(struct session *session, struct tracepoint_list *list)
{
	bool had_trace = session->writer;
	struct error *error = vec_reserve(&session->tracepoints, list->count) ?
				      place_list(session, list, NULL) :
				      error_new(ERROR_FAILED, "out of memory");

	if (!error) {
		garbage_redirect_stubs(session);
		return NULL;
	}
	_cleanup_error_ struct error *ignored = change_release(session, list);
	if (session->writer && !had_trace)
		close_unused(session);
	return error;
}

/* Takes the notes of counts away: the next controller needn't know of them. */
static void forget_counts(struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		count_tracer_unnote(session, list->items[i]);
}

static struct error *add_request(struct session *session, struct request *request,
				 const struct name_list *wanted, struct name_list *ret_made,
				 struct name_list *ret_names)
{
	struct tracepoint_list list = { 0 };
	struct name_list names = { 0 }, made = { 0 };
	struct error *error = tracepoints_make(session, request, wanted, &list);

	/* nothing fails once the sites are in the text (H32) */
	if (!error && ret_names)
		error = list_names(&list, &names);
	if (!error && ret_made)
		error = list_names(&list, &made);
	if (!error)
		error = commands_place(session, &list);
	if (error) {
		name_list_free(&names);
		name_list_free(&made);
		forget_counts(session, &list);
		commands_retire(session, &list);
		vec_free(&list);
		return error;
	}
	assert(session->tracepoints.room - session->tracepoints.count >= list.count);
	for (size_t i = 0; i < list.count; i++) {
		session->tracepoints.items[session->tracepoints.count++] = list.items[i];
		if (list.items[i]->probe.site)
			session_notify(session, SESSION_PLACED, list.items[i]->name);
	}
	if (ret_names)
		drop_refused(&list, &names);
	vec_free(&list);
	if (ret_names)
		*ret_names = names;
	if (ret_made)
		*ret_made = made;
	return NULL;
}

static struct error *check_count(const struct session *session, const struct request *request)
{
	size_t most = request->spec.most ? request->spec.most : session->options.tracepoints_max;
	size_t now = session->tracepoints.count;

	if (!most || (now <= most && request->places.count <= most - now))
		return NULL;
	return error_new(ERROR_FAILED,
			 "'%s' has %zu places, and the process %zu tracepoints already (%zu are the limit)",
			 request->spec.location, request->places.count, now, most);
}

struct error *session_add(struct session *session, const struct tracepoint_spec *spec,
			  struct name_list *ret_names)
{
	return session_add_as(session, spec, NULL, NULL, ret_names);
}

struct error *session_add_as(struct session *session, const struct tracepoint_spec *spec,
			     const struct name_list *names, struct name_list *ret_made,
			     struct name_list *ret_names)
{
	struct request *request = NULL;
	struct error *error = request_create(spec, &request);

	if (error)
		return error;
	if (!session->begun) {
		if (vec_push(&session->requests, request))
			return NULL;
		request_drop(request);
		return error_new(ERROR_FAILED, "out of memory");
	}
	modules_try_again(&session->modules);
	error = session_modules_changed(session);
	if (!error)
		error = request_resolve(request, session->proc, &session->modules);
	if (error && spec->wait) {
		error_free(error);
		error = NULL;
	}
	if (!error)
		error = check_count(session, request);
	if (!error)
		error = add_request(session, request, names, ret_made, ret_names);
	request_drop(request);
	return error;
}

/* ---- remove ---------------------------------------------------------------------------------- */

/* Takes ownership of the list, which is in the order of session->tracepoints. */
static struct error *remove_list(struct session *session, struct tracepoint_list *list)
{
	size_t kept = 0, next = 0;
	struct error *error = change_release(session, list);

	if (error) {
		vec_free(list);
		return error;
	}
	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (next < list->count && list->items[next] == tracepoint)
			next++;
		else
			session->tracepoints.items[kept++] = tracepoint;
	}
	assert(next == list->count); /* both lists are in the same order */
	session->tracepoints.count = kept;
	for (size_t i = 0; i < list->count; i++) {
		switches_write_former(session, list->items[i], SWITCH_OFF);
		session_notify(session, SESSION_GONE, list->items[i]->name);
	}
	tracers_forget(session, list);
	commands_retire(session, list);
	vec_free(list);
	return NULL;
}

struct error *session_remove(struct session *session, const char *pattern, size_t *ret_count)
{
	struct tracepoint_list list = { 0 };
	struct error *error = commands_find(session, pattern, &list);
	size_t count = list.count;

	if (!error)
		error = remove_list(session, &list);
	if (!error && ret_count)
		*ret_count = count;
	return error;
}

struct error *session_remove_those(struct session *session, session_is_one_fn is_one, void *context)
{
	struct tracepoint_list list = { 0 };

	for (size_t i = 0; i < session->tracepoints.count; i++) {
		struct tracepoint *tracepoint = session->tracepoints.items[i];

		if (is_one(context, tracepoint->name) && !vec_push(&list, tracepoint)) {
			vec_free(&list);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	return list.count ? remove_list(session, &list) : NULL;
}

/* ---- switch ---------------------------------------------------------------------------------- */

struct error *session_switch(struct session *session, const char *pattern, bool on,
			     size_t *ret_count)
{
	struct tracepoint_list list = { 0 };
	struct error *error = commands_find(session, pattern, &list);

	for (size_t i = 0; i < list.count; i++) {
		list.items[i]->is_off = !on;
		switches_write(session, list.items[i]);
	}
	if (!error && ret_count)
		*ret_count = list.count;
	vec_free(&list);
	return error;
}

/* Begins a pause: calls that are inside may still record their exits, which the reader drops. */
static void begin_pause(struct session *session, uint64_t now)
{
	size_t index = session->pauses.count++ % READER_PAUSES;

	session->pauses.items[index].begin = now;
	session->pauses.items[index].end = UINT64_MAX;
	if (session->recorded_since)
		session->recorded += now - session->recorded_since;
	session->paused_ns = now_ns();
}

static void end_pause(struct session *session, uint64_t now)
{
	session->pauses.items[(session->pauses.count - 1) % READER_PAUSES].end = now;
	session->recorded_since = now;
	if (!session->recorded)
		info_begin(session);
}

struct error *session_recording(struct session *session, bool on)
{
	if (session->stopped == !on)
		return NULL;
	assert(!on || session->pauses.count);
	/* Before the switches: all tracepoints have the same times, however many they are. */
	(on ? end_pause : begin_pause)(session, __rdtsc());
	session->stopped = !on;
	for (size_t i = 0; i < session->tracepoints.count && session->begun; i++)
		switches_write(session, session->tracepoints.items[i]);
	for (size_t i = 0; i < session->follow->execs.count; i++)
		error_free(session_recording(session->follow->execs.items[i].session, on));
	return session->begun ? session_flush(session) : NULL;
}
