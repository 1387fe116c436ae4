/* tracer.c - the table of tracers. */
#include "tracer.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/strbuf.h"
#include "lttng_identity.h"

static const struct tracer tracers[] = {
	{ "ctf", TRACER_CTF, "DIR", .has_values = true, .has_trace = true, .uses_pool = true },
	{ "log", TRACER_LOG, "FILE", .has_values = true, .uses_pool = true },
	{ "count", TRACER_COUNT, .has_values = false },
	{ "lttng", TRACER_LTTNG, "WORDS", .has_values = true, .loads = true },
	{ "call", TRACER_CALL, "LIBRARY:FUNCTION", .needs_argument = true, .has_values = true,
	  .has_trace = true, .loads = true },
	/* by tracer_sync alone: tracer_find gives the first of a name */
	{ "log", TRACER_SYNC, "FILE", .has_values = true },
};
#define TRACERS (sizeof(tracers) / sizeof(tracers[0]))

struct error *tracer_find(const char *name, const struct tracer **ret_tracer)
{
	struct strbuf names = { 0 };

	for (size_t i = 0; i < TRACERS; i++) {
		if (!name || !strcmp(tracers[i].name, name)) {
			*ret_tracer = &tracers[i];
			return NULL;
		}
	}
	for (size_t i = 0; i < TRACERS && tracers[i].kind != TRACER_SYNC; i++)
		strbuf_printf(&names, "%s%s", i ? ", " : "", tracers[i].name);
	struct error *error = error_new(ERROR_USAGE, "unknown tracer '%s' (available: %s)", name,
					names.text ? names.text : "others");
	strbuf_free(&names);
	return error;
}

struct error *tracer_sync(const struct tracer *tracer, const struct tracer **ret_tracer)
{
	if (tracer->kind != TRACER_LOG && tracer->kind != TRACER_SYNC)
		return error_new(ERROR_USAGE, "--sync: only with tracer log, not '%s'",
				 tracer->name);
	for (size_t i = 0; i < TRACERS; i++) {
		if (tracers[i].kind == TRACER_SYNC)
			*ret_tracer = &tracers[i];
	}
	return NULL;
}

static bool is_library_function(const char *argument)
{
	const char *colon = strrchr(argument, ':');

	return colon && colon > argument && colon[1];
}

struct error *tracer_check(const struct tracer *tracer, const char *argument)
{
	if (argument && !tracer->argument)
		return error_new(ERROR_USAGE, "tracer '%s' takes no argument ('%s')", tracer->name,
				 argument);
	if (!argument && tracer->needs_argument)
		return error_new(ERROR_USAGE, "tracer '%s' needs %s", tracer->name,
				 tracer->argument);
	if (argument && !*argument)
		return error_new(ERROR_USAGE, "tracer '%s': %s is empty", tracer->name,
				 tracer->argument);
	if (tracer->kind == TRACER_CALL && !is_library_function(argument))
		return error_new(ERROR_USAGE, "tracer 'call': '%s' is not LIBRARY:FUNCTION",
				 argument);
	if (tracer->kind == TRACER_LTTNG)
		return lttng_identity_parse(argument, &(struct lttng_identity){ 0 });
	return NULL;
}

struct error *tracer_split(const char *text, char **ret_name, const char **ret_argument)
{
	const char *colon = strchr(text, ':');
	char *name = strndup(text, colon ? (size_t)(colon - text) : strlen(text));

	if (!name)
		return error_new(ERROR_FAILED, "out of memory");
	*ret_name = name;
	*ret_argument = colon ? colon + 1 : NULL;
	return NULL;
}
