/*
 * session_contexts.c - add contexts to tracepoints while the session records, and take them away.
 *
 * A tracepoint with other contexts has another type of event. So a copy of it, its twin, takes its
 * place: in one stop of the target, so that each hit is recorded once.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "control/session/state/switches.h"
#include "control/values/describe/describe.h"
#include "session.h"
#include "session_commands.h"
#include "tracepoints.h"

static bool find_context(const struct tracepoint *tracepoint, const char *type, size_t *ret_index)
{
	for (size_t i = 0; i < tracepoint->contexts.count; i++) {
		if (strcmp(tracepoint->contexts.items[i], type) == 0) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

/* `change` is one of these two. */
static struct error *note_context(struct tracepoint *tracepoint, const char *type)
{
	char *copy = strdup(type);

	if (copy && vec_push(&tracepoint->contexts, copy))
		return NULL;
	free(copy);
	return error_new(ERROR_FAILED, "out of memory");
}

static struct error *forget_context(struct tracepoint *tracepoint, const char *type)
{
	size_t at = 0;
	bool found = find_context(tracepoint, type, &at);

	assert(found); /* keep_those_with */
	free(tracepoint->contexts.items[at]);
	for (tracepoint->contexts.count--; at < tracepoint->contexts.count; at++)
		tracepoint->contexts.items[at] = tracepoint->contexts.items[at + 1];
	return NULL;
}

typedef struct error *context_change(struct tracepoint *tracepoint, const char *type);

/* Copies a tracepoint and changes its contexts: the copy's events have the same name and another
 * type. */
static struct error *make_twin(struct session *session, struct tracepoint *tracepoint,
			       context_change *change, const char *type,
			       struct tracepoint **ret_twin)
{
	struct tracepoint *twin = NULL;
	struct error *error =
		tracepoints_copy(session, tracepoint, &tracepoint->probe.place, &twin);

	if (error)
		return error;
	error = change(twin, type);
	if (!error)
		error = describe_tracepoint(session, twin);
	if (error) {
		tracepoints_free_one(session, twin);
		return error;
	}
	*ret_twin = twin;
	return NULL;
}

static struct error *check_placed(const struct tracepoint *tracepoint)
{
	if (!tracepoint->probe.refusal)
		return NULL;
	return error_new(ERROR_REFUSED, "%s: not placed: %s", tracepoint->name,
			 error_text(tracepoint->probe.refusal));
}

/* Before a context is added to all of the list. */
static struct error *check_contexts(struct tracepoint_list *list, const char *type)
{
	size_t index;

	for (size_t i = 0; i < list->count; i++) {
		struct error *error = check_placed(list->items[i]);

		if (error)
			return error;
		if (find_context(list->items[i], type, &index))
			return error_new(ERROR_USAGE, "%s: has the context %s already",
					 list->items[i]->name, type);
	}
	return NULL;
}

/* Leaves those tracepoints in the list that have the context: one must. */
static struct error *keep_those_with(struct tracepoint_list *list, const char *type)
{
	const char *name = list->count ? list->items[0]->name : "";
	size_t kept = 0, index;

	for (size_t i = 0; i < list->count; i++) {
		if (!find_context(list->items[i], type, &index))
			continue;
		struct error *error = check_placed(list->items[i]);

		if (error)
			return error;
		list->items[kept++] = list->items[i];
	}
	if (!kept && list->count)
		return error_new(ERROR_USAGE, "%s: has no context %s (-t as it was given then)",
				 name, type);
	list->count = kept;
	return NULL;
}

/* Replaces the site's code, in one stop, by code in which `old` is off and its twin is on: every
 * hit is recorded once. */
static struct error *exchange(struct session *session, struct tracepoint *old,
			      struct tracepoint *twin)
{
	struct tracepoint_list in = { .items = &twin, .count = 1 },
			       out = { .items = &old, .count = 1 };

	old->probe.event.position = SWITCH_OFF;
	struct error *error = commands_place(session, &in);
	if (error) {
		commands_retire(session, &in);
		switches_write(session, old);
		return error;
	}
	error = change_release(session, &out);
	commands_replace(session, old, twin);
	return error;
}

static struct error *change_context(struct session *session, struct tracepoint *tracepoint,
				    context_change *change, const char *type)
{
	struct tracepoint *twin = NULL;
	struct error *error;

	if (tracepoint->waits) /* it has no events yet */
		return change(tracepoint, type);
	error = make_twin(session, tracepoint, change, type, &twin);
	return error ? error : exchange(session, tracepoint, twin);
}

/* Leaves those tracepoints in the list that a change is for, or refuses. */
typedef struct error *context_choice(struct tracepoint_list *list, const char *type);

static struct error *change_contexts(struct session *session, const char *pattern, const char *type,
				     context_choice *choose, context_change *change,
				     size_t *ret_count)
{
	struct tracepoint_list list = { 0 };
	struct error *error = commands_find(session, pattern, &list);

	if (!error)
		error = choose(&list, type);
	if (!error)
		error = session_flush(session); /* for info_inherit */
	for (size_t i = 0; i < list.count && !error; i++)
		error = change_context(session, list.items[i], change, type);
	if (!error && ret_count)
		*ret_count = list.count;
	vec_free(&list);
	return error;
}

struct error *session_add_context(struct session *session, const char *pattern, const char *type,
				  size_t *ret_count)
{
	return change_contexts(session, pattern, type, check_contexts, note_context, ret_count);
}

struct error *session_remove_context(struct session *session, const char *pattern, const char *type,
				     size_t *ret_count)
{
	return change_contexts(session, pattern, type, keep_those_with, forget_context, ret_count);
}
