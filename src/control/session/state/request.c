#include "request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"

static bool copy_string(const char **string)
{
	if (*string)
		*string = strdup(*string);
	return *string != NULL;
}

/* False: out of memory; the strings that were copied are the request's, the others are NULL. */
static bool copy_spec(const struct tracepoint_spec *from, struct tracepoint_spec *to)
{
	const char **contexts = calloc(from->context_count + 1, sizeof(*contexts));
	const char **strings[] = { &to->location, &to->name, &to->filter, &to->tracer,
				   &to->tracer_argument, &to->by, &to->of,
				   &to->prototypes };
	bool copied = contexts != NULL;

	*to = *from;
	to->contexts = contexts;
	to->context_count = 0;
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		bool wanted = *strings[i] != NULL;

		copied &= copy_string(strings[i]) || !wanted;
	}
	for (size_t i = 0; i < from->context_count && contexts; i++) {
		contexts[i] = from->contexts[i];
		copied &= copy_string(&contexts[i]);
		to->context_count++;
	}
	return copied;
}

static void free_spec(struct tracepoint_spec *spec)
{
	for (size_t i = 0; i < spec->context_count; i++)
		free((char *)spec->contexts[i]);
	free((char **)spec->contexts);
	free((char *)spec->location);
	free((char *)spec->name);
	free((char *)spec->filter);
	free((char *)spec->tracer);
	free((char *)spec->tracer_argument);
	free((char *)spec->by);
	free((char *)spec->of);
	free((char *)spec->prototypes);
}

/* Does the tracer fit the spec? Checked before anything is touched. */
static struct error *check_tracer(const struct tracepoint_spec *spec, const struct tracer *tracer)
{
	struct error *error = tracer_check(tracer, spec->tracer_argument);

	if (!error && !tracer->has_values && spec->context_count)
		error = error_new(
			ERROR_USAGE,
			"tracer '%s' records no events: it has no use for contexts (-t)",
			tracer->name);
	if (!error && (spec->by || spec->of) && tracer->kind != TRACER_COUNT)
		error = error_new(ERROR_USAGE, "%s: only with tracer count",
				  spec->by ? "--by" : "--of");
	return error;
}

bool request_is_typed(const struct request *request)
{
	return request->tracer->kind == TRACER_LTTNG &&
	       (request->spec.name || request->lttng.typed);
}

static struct error *read_identity(struct request *request)
{
	const struct tracepoint_spec *spec = &request->spec;
	struct lttng_identity *lttng = &request->lttng;
	struct error *error = lttng_identity_parse(spec->tracer_argument, lttng);
	size_t length;

	if (error || request_is_typed(request))
		return error;
	const char *what = spec->context_count			    ? "contexts (-t)" :
			   lttng->loglevel != LTTNG_NO_LEVEL	    ? "a log level" :
			   lttng_identity_next_hidden(lttng, NULL, &length) ? "nowrite" :
								      NULL;
	return !what ? NULL :
		       error_new(ERROR_USAGE,
				 "tracer 'lttng': unnamed events record only their address: for %s, "
				 "name them (-n NAME) or give --typed",
				 what);
}

struct error *request_create(const struct tracepoint_spec *spec, struct request **ret_request)
{
	static uint64_t last_number;
	struct request *request = calloc(1, sizeof(*request));
	struct error *error = request ? tracer_find(spec->tracer, &request->tracer) :
					error_new(ERROR_FAILED, "out of memory");

	if (!error && spec->sync)
		error = tracer_sync(request->tracer, &request->tracer);
	if (!error)
		error = check_tracer(spec, request->tracer);
	if (!error)
		error = location_parse(spec->location, &request->location);
	if (error) {
		free(request);
		return error;
	}
	request->users = 1;
	request->number = ++last_number;
	if (!copy_spec(spec, &request->spec)) {
		request_drop(request);
		return error_new(ERROR_FAILED, "out of memory");
	}
	if (request->tracer->kind == TRACER_LTTNG)
		error = read_identity(request);
	if (!error && spec->prototypes)
		error = error_wrap(prototypes_parse(spec->prototypes, &request->prototypes),
				   "--prototypes");
	if (error) {
		request_drop(request);
		return error;
	}
	*ret_request = request;
	return NULL;
}

void request_drop(struct request *request)
{
	if (!request)
		return;
	assert(request->users);
	if (--request->users)
		return;
	places_free(&request->places);
	location_clear(&request->location);
	free_spec(&request->spec);
	prototypes_free(request->prototypes);
	free(request);
}

struct error *request_resolve(struct request *request, struct proc *proc, struct modules *modules)
{
	assert(request->users);
	places_free(&request->places);
	return locate(proc, modules, &request->location, request->spec.kind != TRACEPOINT_BARE,
		      &request->places);
}
