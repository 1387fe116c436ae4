/*
 * tracepoints.c - make tracepoints from places, name them, free them.
 */
#include <assert.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/exits/exits.h"
#include "control/base/interrupt.h"
#include "session.h"
#include "tracepoints.h"
#include "control/tracers/count/count_tracer.h"
#include "control/tracers/dispatch.h"
#include "types.h"
#include "control/values/describe/describe.h"

#define WISHES_MAX 4096 /* then all are forgotten, which costs only time */

struct naming {
	void *tree; /* names of all tracepoints */
	void *wishes; /* struct wish */
	size_t wish_count;
	size_t left_out; /* session_left_out */
	char left_out_why[320];
};

/* ---- names ---------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

bool tracepoints_claim_name(struct session *session, struct tracepoint *tracepoint)
{
	return tsearch(&tracepoint->name, &session->naming->tree, compare_names) != NULL;
}

static bool is_taken(const struct session *session, const char *name)
{
	return tfind(&name, &session->naming->tree, compare_names) != NULL;
}

/* A name that several tracepoints want: name-2 to name-(next - 1) are taken. Without it, the names
 * of n tracepoints would cost n * n / 2 searches (more than 120 s for 20,000). */
struct wish {
	char *name; /* first, for compare_names */
	unsigned next;
};

static void free_wish(void *wish)
{
	free(((struct wish *)wish)->name);
	free(wish);
}

static void forget_wishes(struct naming *naming)
{
	tdestroy(naming->wishes, free_wish);
	naming->wishes = NULL;
	naming->wish_count = 0;
}

/* NULL: out of memory. */
static struct wish *find_wish(struct naming *naming, const char *name)
{
	struct wish **node = tfind(&name, &naming->wishes, compare_names);

	if (node)
		return *node;
	if (naming->wish_count >= WISHES_MAX)
		forget_wishes(naming);
	struct wish *wish = calloc(1, sizeof(*wish));
	if (!wish)
		return NULL;
	*wish = (struct wish){ .name = strdup(name), .next = 2 };
	if (!wish->name || !tsearch(wish, &naming->wishes, compare_names)) {
		free_wish(wish);
		return NULL;
	}
	naming->wish_count++;
	return wish;
}

/* A name gets free: "foo-7" may be the next for those that want "foo". */
static void free_number(struct naming *naming, const char *name)
{
	const char *dash = strrchr(name, '-');
	_cleanup_free_ char *wanted = dash ? strndup(name, (size_t)(dash - name)) : NULL;
	unsigned long number = dash ? strtoul(dash + 1, NULL, 10) : 0;
	struct wish **node = wanted ? tfind(&wanted, &naming->wishes, compare_names) : NULL;
	struct wish *wish = node ? *node : NULL;

	if (wish && number >= 2 && number < wish->next)
		wish->next = (unsigned)number;
	else if (dash && !wanted)
		forget_wishes(naming); /* out of memory */
}

void tracepoints_drop_name(struct session *session, struct tracepoint *tracepoint)
{
	char ***node = tfind(&tracepoint->name, &session->naming->tree, compare_names);

	if (!node || *node != &tracepoint->name)
		return;
	tdelete(&tracepoint->name, &session->naming->tree, compare_names);
	free_number(session->naming, tracepoint->name);
}

/* Names the tracepoint `wanted`, or the first of wanted-2, wanted-3... that is free. */
static struct error *find_name(struct session *session, const char *wanted,
			       struct tracepoint *tracepoint)
{
	char *name = strdup(wanted);
	struct wish *wish =
		name && is_taken(session, name) ? find_wish(session->naming, wanted) : NULL;

	while (name && is_taken(session, name)) {
		free(take_ptr(&name));
		if (wish && asprintf(&name, "%s-%u", wanted, wish->next++) < 0)
			name = NULL;
	}
	tracepoint->name = name;
	return name && tracepoints_claim_name(session, tracepoint) ?
		       NULL :
		       error_new(ERROR_FAILED, "out of memory");
}

bool tracepoints_create(struct session *session)
{
	session->naming = calloc(1, sizeof(*session->naming));
	return session->naming != NULL;
}

void tracepoints_destroy(struct session *session)
{
	if (session->naming)
		forget_wishes(session->naming);
	free(session->naming);
}

/* ---- creation and end ----------------------------------------------------------------------- */

static struct error *copy_contexts(const char *const *from, size_t count,
				   struct tracepoint *tracepoint)
{
	for (size_t i = 0; i < count; i++) {
		char *copy = strdup(from[i]);

		if (!copy || !vec_push(&tracepoint->contexts, copy)) {
			free(copy);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	return NULL;
}

static struct error *new_tracepoint(struct request *request, const char *const *contexts,
				    size_t context_count, struct tracepoint **ret_tracepoint)
{
	struct tracepoint *tracepoint = calloc(1, sizeof(*tracepoint));

	if (!tracepoint)
		return error_new(ERROR_FAILED, "out of memory");
	assert(request->users && request->tracer);
	tracepoint->request = request;
	request->users++;
	tracepoint->kind = request->spec.kind;
	tracepoint->tracer = request->tracer;
	tracepoint->from_glob = request->location.is_glob;
	tracepoint->is_off = request->spec.disabled;
	*ret_tracepoint = tracepoint;
	return copy_contexts(contexts, context_count, tracepoint);
}

static struct error *set_place(struct tracepoint *tracepoint, const struct place *place)
{
	tracepoint->probe.place = *place;
	tracepoint->probe.place.name = strdup(place->name);
	if (place->marker)
		tracepoint->kind = TRACEPOINT_BARE;
	tracepoint->probe.event.exit = tracepoint->kind == TRACEPOINT_FUNCTION;
	if (place->inlined || place->marker)
		/* some inlined copies, or some places of a marker, may be refused */
		tracepoint->from_glob = true;
	return tracepoint->probe.place.name ? NULL : error_new(ERROR_FAILED, "out of memory");
}

void tracepoints_free_one(struct session *session, struct tracepoint *tracepoint)
{
	if (!tracepoint)
		return;
	if (tracepoint->name)
		tracepoints_drop_name(session, tracepoint);
	types_give_back(session, tracepoint);
	if (tracepoint->has_counter)
		describe_free_counter(session, tracepoint->counter);
	for (size_t i = 0; i < tracepoint->contexts.count; i++)
		free(tracepoint->contexts.items[i]);
	vec_free(&tracepoint->contexts);
	error_free(tracepoint->probe.refusal);
	error_free(tracepoint->exit_refusal);
	exits_late_free(tracepoint);
	error_free(tracepoint->still_waits);
	values_free(&tracepoint->values);
	tracers_free_use(session, tracepoint);
	request_drop(tracepoint->request);
	free(tracepoint->probe.place.name);
	free(tracepoint->name);
	free(tracepoint);
}

static void free_list(struct session *session, struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		tracepoints_free_one(session, list->items[i]);
	vec_free(list);
}

void tracepoints_free(struct session *session)
{
	free_list(session, &session->tracepoints);
	free_list(session, &session->retired);
}

/* Room to retire every tracepoint, and `more`: commands_retire needs no memory. */
static struct error *keep_room(struct session *session, size_t more)
{
	return vec_reserve(&session->retired, session->tracepoints.count + more) ?
		       NULL :
		       error_new(ERROR_FAILED, "out of memory");
}

/* ---- places --------------------------------------------------------------------------------- */

struct error *tracepoints_make_one(struct session *session, struct request *request,
				   const struct place *place, const char *name,
				   struct tracepoint_list *list)
{
	const struct tracepoint_spec *spec = &request->spec;
	struct tracepoint *tracepoint = NULL;
	struct error *error = keep_room(session, list->count + 1);

	if (!error)
		error = new_tracepoint(request, spec->contexts, spec->context_count, &tracepoint);

	if (!error)
		error = find_name(session, name, tracepoint);
	if (!error && place)
		error = set_place(tracepoint, place);
	if (!error && place)
		error = describe_tracepoint(session, tracepoint);
	if (!error && !vec_push(list, tracepoint))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		tracepoints_free_one(session, tracepoint);
		return error;
	}
	tracepoint->waits = !place;
	return NULL;
}

/* Names the placeholder after its future place, as far as that is known. */
static struct error *make_waiting(struct session *session, struct request *request,
				  struct tracepoint_list *list)
{
	const struct tracepoint_spec *spec = &request->spec;
	const char *at = request->location.module ? strrchr(spec->location, '@') : NULL;
	_cleanup_free_ char *name = at ? strndup(spec->location, (size_t)(at - spec->location)) :
					 strdup(spec->location);

	if (!name)
		return error_new(ERROR_FAILED, "out of memory");
	return tracepoints_make_one(session, request, NULL, spec->name ? spec->name : name, list);
}

/* `text` is the first function's error; its further lines show the expression and are left out. */
static void note_left_out(struct session *session, size_t count, const char *text)
{
	session->naming->left_out += count;
	snprintf(session->naming->left_out_why, sizeof(session->naming->left_out_why), "%.*s",
		 (int)strcspn(text, "\n"), text);
}

/* Of the request's next tracepoint, of which `made` were made. */
static const char *next_name(const struct request *request, const struct name_list *names,
			     size_t made, const struct place *place)
{
	if (names && made < names->count)
		return names->items[made];
	return request->spec.name ? request->spec.name : place->name;
}

/* Has the list, or the session, a tracepoint there inside of which others are recorded? */
static bool is_enclosing(const struct session *session, const struct tracepoint_list *list,
			 const struct place *place)
{
	const struct tracepoint_list *lists[] = { list, &session->tracepoints };

	for (size_t i = 0; i < 2 && session->options.only_inside; i++) {
		for (size_t j = 0; j < lists[i]->count; j++) {
			const struct tracepoint *one = lists[i]->items[j];

			if (one->request->spec.encloses && !one->waits &&
			    taddr_equal(one->probe.place.address, place->address))
				return true;
		}
	}
	return false;
}

struct error *tracepoints_make(struct session *session, struct request *request,
			       const struct name_list *names, struct tracepoint_list *list)
{
	const struct tracepoint_spec *spec = &request->spec;
	struct error *error = NULL;

	if (spec->name && !request->location.is_glob && is_taken(session, spec->name))
		return error_new(ERROR_USAGE,
				 "tracepoint '%s' exists already (give another name)",
				 spec->name);
	if (!request->places.count)
		return make_waiting(session, request, list);
	size_t left_out = 0, before = list->count;
	_cleanup_error_ struct error *first = NULL;
	for (size_t i = 0; i < request->places.count && !error; i++) {
		const struct place *place = &request->places.items[i];

		if (!spec->encloses && is_enclosing(session, list, place))
			continue;
		error = interrupt_check(); /* debug information may be read for long */
		if (!error)
			error = tracepoints_make_one(
				session, request, place,
				next_name(request, names, list->count - before, place), list);
		if (!error || error_kind(error) != ERROR_USAGE || request->places.count == 1)
			continue;
		left_out++; /* the place has no such argument, for example */
		if (first)
			error_free(error);
		else
			first = error;
		error = NULL;
	}
	if (!error && list->count == before && first)
		return take_ptr(&first);
	if (!error && left_out)
		note_left_out(session, left_out, error_text(first));
	return error;
}

struct error *tracepoints_copy(struct session *session, const struct tracepoint *tracepoint,
			       const struct place *place, struct tracepoint **ret_copy)
{
	assert(tracepoint->name);
	struct tracepoint *twin = NULL;
	struct error *error = keep_room(session, 1);

	if (!error)
		error = new_tracepoint(tracepoint->request,
				       (const char *const *)tracepoint->contexts.items,
				       tracepoint->contexts.count, &twin);
	if (!error && !(twin->name = strdup(tracepoint->name)))
		error = error_new(ERROR_FAILED, "out of memory");
	if (!error && place)
		error = set_place(twin, place);
	if (!error && !place && !(twin->probe.place.name = strdup(tracepoint->probe.place.name)))
		error = error_new(ERROR_FAILED, "out of memory");
	if (!error && tracepoint->tracer->kind == TRACER_COUNT &&
	    !count_tracer_copy(tracepoint, twin))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		tracepoints_free_one(session, twin);
		return error;
	}
	twin->waits = !place;
	twin->is_off = tracepoint->is_off;
	*ret_copy = twin;
	return NULL;
}

size_t session_left_out(const struct session *session, const char **ret_why)
{
	*ret_why = session->naming->left_out_why;
	return session->naming->left_out;
}
