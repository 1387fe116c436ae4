/*
 * api_calls.c - one function per command.
 */
#include <stddef.h>
#include <string.h>

#include "api.h"

/* ---- processes ------------------------------------------------------------------------------- */

/* A request with only a target; NULL means all, where the command allows it. */
static struct error *tell(struct dyntrace *dyntrace, enum wire_kind kind, const char *target,
			  unsigned int flags)
{
	api_begin(dyntrace, kind, target, flags);
	return api_finish(dyntrace, NULL);
}

struct dyntrace_error *dyntrace_attach(struct dyntrace *dyntrace, const char *target,
				       unsigned int flags)
{
	struct error *error = api_need(target, "target");

	return api_error(error ? error : tell(dyntrace, WIRE_ATTACH, target, flags));
}

struct dyntrace_error *dyntrace_detach(struct dyntrace *dyntrace, const char *target,
				       unsigned int flags)
{
	struct error *error = api_need(target, "target");

	return api_error(error ? error : tell(dyntrace, WIRE_DETACH, target, flags));
}

struct dyntrace_error *dyntrace_list_processes(struct dyntrace *dyntrace,
					       struct dyntrace_list **ret_list)
{
	api_begin(dyntrace, WIRE_PROCESSES, NULL, 0);
	return api_error(api_finish_list(dyntrace, WIRE_PROCESSES, ret_list));
}

static struct dyntrace_error *tell_library(struct dyntrace *dyntrace, enum wire_kind kind,
					   const char *target, const char *library,
					   unsigned int flags)
{
	_cleanup_free_ char *absolute = NULL;
	struct error *error = api_need(target, "target");

	if (!error)
		error = api_need(library, "library");
	if (!error)
		error = client_absolute_library(library, &absolute);
	if (error)
		return api_error(error);
	wire_text(api_begin(dyntrace, kind, target, flags), WIRE_LIBRARY, absolute);
	return api_error(api_finish(dyntrace, NULL));
}

struct dyntrace_error *dyntrace_load(struct dyntrace *dyntrace, const char *target,
				     const char *library, unsigned int flags)
{
	return tell_library(dyntrace, WIRE_LOAD, target, library, flags);
}

struct dyntrace_error *dyntrace_unload(struct dyntrace *dyntrace, const char *target,
				       const char *library, unsigned int flags)
{
	return tell_library(dyntrace, WIRE_UNLOAD, target, library, flags);
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct error *list_names(struct dyntrace *dyntrace, enum wire_kind kind, bool all,
				const char *target, const char *glob,
				struct dyntrace_list **ret_list)
{
	const char *words[6] = { wire_kind_name(kind) };
	struct error *error = api_need(target, "target");
	size_t count = 1;

	if (error)
		return error;
	struct dyntrace_list *list = list_create(kind);
	if (!list)
		return error_new(ERROR_FAILED, "out of memory");
	if (dyntrace)
		strbuf_free(&dyntrace->notes);
	if (all)
		words[count++] = "-a";
	words[count++] = "--";
	words[count++] = target;
	words[count++] = glob;
	error = command_ask(dyntrace, words, list);
	if (error)
		dyntrace_list_free(list);
	else
		*ret_list = list;
	return error;
}

struct dyntrace_error *dyntrace_list_symbols(struct dyntrace *dyntrace, const char *target,
					     const char *glob, unsigned int flags,
					     struct dyntrace_list **ret_list)
{
	return api_error(list_names(dyntrace, WIRE_SYMBOLS, flags & DYNTRACE_PROTOTYPES, target,
				    glob, ret_list));
}

struct dyntrace_error *dyntrace_list_markers(struct dyntrace *dyntrace, const char *target,
					     const char *glob, struct dyntrace_list **ret_list)
{
	return api_error(list_names(dyntrace, WIRE_MARKERS, false, target, glob, ret_list));
}

/* ---- tracepoints ----------------------------------------------------------------------------- */

/*
 * Fields that an older header doesn't have are zero. Fields of a newer header, which this library
 * doesn't know, must be zero.
 */
static struct error *take_probe(const struct dyntrace_probe *given,
				struct dyntrace_probe *ret_probe)
{
	struct dyntrace_probe probe = { 0 };

	if (!given)
		return error_new(ERROR_USAGE, "the probe is missing");
	if (given->size < offsetof(struct dyntrace_probe, shape))
		return error_new(ERROR_USAGE,
				 "the probe's size isn't set (probe.size = sizeof(probe))");
	for (size_t i = sizeof(probe); i < given->size; i++)
		if (((const char *)given)[i])
			return error_new(ERROR_USAGE,
					 "the probe has a field that this version of libdyntrace "
					 "(%u) doesn't know",
					 DYNTRACE_API_VERSION);
	memcpy(&probe, given, given->size < sizeof(probe) ? given->size : sizeof(probe));
	if ((unsigned int)probe.shape > DYNTRACE_ENTRY_EXIT)
		return error_new(ERROR_USAGE, "unknown shape of the probe: %u",
				 (unsigned int)probe.shape);
	struct error *error = api_need(probe.location, "probe's location");
	if (!error)
		*ret_probe = probe;
	return error;
}

static void write_numbers(struct wire_out *out, const struct dyntrace_probe *probe,
			  unsigned int flags)
{
	const struct {
		enum wire_tag tag;
		uint64_t value;
	} numbers[] = {
		{ WIRE_EVERY, probe->every },
		{ WIRE_FIRST, probe->first },
		{ WIRE_RATE, probe->rate },
		{ WIRE_STRING_MAX, probe->string_max },
		{ WIRE_WAIT, !!(flags & DYNTRACE_WAIT) },
		{ WIRE_DISABLED, !!(flags & DYNTRACE_DISABLED) },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].value)
			wire_number(out, numbers[i].tag, numbers[i].value);
}

static enum wire_shape shape_of(enum dyntrace_shape shape)
{
	return shape == DYNTRACE_BARE	 ? WIRE_BARE
	       : shape == DYNTRACE_ENTRY ? WIRE_ENTRY
					 : WIRE_FUNCTION;
}

static struct error *write_probe(struct wire_out *out, const struct dyntrace_probe *probe,
				 unsigned int flags)
{
	char *argument = (char *)probe->argument;

	wire_text(out, WIRE_LOCATION, probe->location);
	wire_number(out, WIRE_SHAPE, shape_of(probe->shape));
	wire_text(out, WIRE_NAME, probe->name);
	wire_text(out, WIRE_FILTER, probe->filter);
	for (size_t i = 0; probe->contexts && probe->contexts[i]; i++)
		wire_text(out, WIRE_CONTEXT_TYPE, probe->contexts[i]);
	wire_text(out, WIRE_TRACER, probe->tracer);
	write_numbers(out, probe, flags);
	return client_write_arguments(out, probe->tracer, &argument, argument != NULL);
}

struct dyntrace_error *dyntrace_add(struct dyntrace *dyntrace, const char *target,
				    const struct dyntrace_probe *given, unsigned int flags,
				    struct dyntrace_list **ret_added)
{
	struct dyntrace_probe probe = { 0 };
	struct error *error = api_need(target, "target");

	if (!error)
		error = take_probe(given, &probe);
	if (!error)
		error = write_probe(api_begin(dyntrace, WIRE_ADD, target, flags), &probe, flags);
	return api_error(error ? error : api_finish_list(dyntrace, WIRE_TRACEPOINTS, ret_added));
}

/* type: of a context; NULL: none. */
static struct dyntrace_error *change(struct dyntrace *dyntrace, enum wire_kind kind,
				     const char *target, const char *name, const char *type,
				     unsigned int flags)
{
	struct error *error = api_need(target, "target");

	if (!error)
		error = api_need(name, "tracepoint's name");
	if (error)
		return api_error(error);
	struct wire_out *out = api_begin(dyntrace, kind, target, flags);
	wire_text(out, WIRE_NAME, name);
	wire_text(out, WIRE_CONTEXT_TYPE, type);
	return api_error(api_finish(dyntrace, NULL));
}

struct dyntrace_error *dyntrace_remove(struct dyntrace *dyntrace, const char *target,
				       const char *name, unsigned int flags)
{
	return change(dyntrace, WIRE_REMOVE, target, name, NULL, flags);
}

struct dyntrace_error *dyntrace_enable(struct dyntrace *dyntrace, const char *target,
				       const char *name, unsigned int flags)
{
	return change(dyntrace, WIRE_ENABLE, target, name, NULL, flags);
}

struct dyntrace_error *dyntrace_disable(struct dyntrace *dyntrace, const char *target,
					const char *name, unsigned int flags)
{
	return change(dyntrace, WIRE_DISABLE, target, name, NULL, flags);
}

struct dyntrace_error *dyntrace_add_context(struct dyntrace *dyntrace, const char *target,
					    const char *name, const char *type, unsigned int flags)
{
	struct error *error = api_need(type, "context's type");

	return error ? api_error(error) : change(dyntrace, WIRE_CONTEXT, target, name, type, flags);
}

struct dyntrace_error *dyntrace_remove_context(struct dyntrace *dyntrace, const char *target,
					       const char *name, const char *type,
					       unsigned int flags)
{
	struct error *error = api_need(type, "context's type");

	return error ? api_error(error) :
		       change(dyntrace, WIRE_NO_CONTEXT, target, name, type, flags);
}

struct dyntrace_error *dyntrace_list_tracepoints(struct dyntrace *dyntrace, const char *target,
						 unsigned int flags,
						 struct dyntrace_list **ret_list)
{
	struct error *error = api_need(target, "target");

	if (error)
		return api_error(error);
	api_begin(dyntrace, WIRE_TRACEPOINTS, target, flags);
	return api_error(api_finish_list(dyntrace, WIRE_TRACEPOINTS, ret_list));
}

/* ---- recording ------------------------------------------------------------------------------- */

struct dyntrace_error *dyntrace_start(struct dyntrace *dyntrace, const char *target,
				      unsigned int flags)
{
	return api_error(tell(dyntrace, WIRE_START, target, flags));
}

struct dyntrace_error *dyntrace_stop(struct dyntrace *dyntrace, const char *target,
				     unsigned int flags)
{
	return api_error(tell(dyntrace, WIRE_STOP, target, flags));
}

struct dyntrace_error *dyntrace_flush(struct dyntrace *dyntrace, const char *target,
				      unsigned int flags)
{
	return api_error(tell(dyntrace, WIRE_FLUSH, target, flags));
}

struct dyntrace_error *dyntrace_snapshot(struct dyntrace *dyntrace, const char *target,
					 unsigned int flags, struct dyntrace_list **ret_list)
{
	api_begin(dyntrace, WIRE_SNAPSHOT, target, flags);
	return api_error(api_finish_list(dyntrace, WIRE_SNAPSHOT, ret_list));
}
