#include "latency.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "shared/layout.h"
#include "control/exits/code/exit_stub.h"
#include "histogram.h"

enum role { ROLE_NONE, ROLE_ENTRY, ROLE_EXIT };

void latency_init(struct latency *latency, const struct event_types *types)
{
	latency->types = types;
}

/* False: out of memory, and the array is as it was. */
static bool widen(void *array, size_t count, size_t room, size_t item)
{
	char *wider = realloc(*(void **)array, room * item);

	if (!wider)
		return false;
	memset(wider + count * item, 0, (room - count) * item);
	*(void **)array = wider;
	return true;
}

/* Makes the arrays as long as the list of types. */
static bool grow(struct latency *latency)
{
	size_t from = latency->count, count = latency->types->count,
	       room = from * 2 > count ? from * 2 : count;

	if (from >= count)
		return true;
	if (!widen(&latency->functions, from, room, sizeof(*latency->functions)) ||
	    !widen(&latency->roles, from, room, sizeof(*latency->roles)) ||
	    !widen(&latency->durations, from, room, sizeof(*latency->durations)))
		return false;
	latency->count = room;
	return true;
}

static uint16_t duration_word(const struct event_type *type)
{
	if (type->is_variable)
		return 1; /* the first field */
	for (size_t i = 0; i < type->field_count; i++) {
		if (!strcmp(type->fields[i].name, "duration"))
			return type->fields[i].offset / 8;
	}
	return EXIT_EVENT_DURATION / 8;
}

bool latency_add(struct latency *latency, uint32_t entry_id)
{
	assert(entry_id + 1 < latency->types->count);
	if (!grow(latency))
		return false;
	free(latency->functions[entry_id].buckets); /* an earlier function may have had the id */
	latency->functions[entry_id] = (struct latency_function){ 0 };
	latency->durations[entry_id + 1] = duration_word(&latency->types->items[entry_id + 1]);
	latency->roles[entry_id] = ROLE_ENTRY;
	latency->roles[entry_id + 1] = ROLE_EXIT;
	return true;
}

static void free_stream(struct latency_stream *stream)
{
	vec_free(&stream->calls);
	free(stream->within);
}

void latency_free(struct latency *latency)
{
	for (size_t i = 0; i < latency->count && latency->functions; i++)
		free(latency->functions[i].buckets);
	for (size_t i = 0; i < latency->streams.count; i++)
		free_stream(&latency->streams.items[i]);
	vec_free(&latency->streams);
	free(latency->functions);
	free(latency->roles);
	free(latency->durations);
}

/* ---- histogram ------------------------------------------------------------------------------ */

static void count_duration(struct latency_function *function, uint64_t duration)
{
	function->calls++;
	function->durations += duration;
	if (duration > function->max)
		function->max = duration;
	if (!function->buckets)
		function->buckets = calloc(LATENCY_BUCKETS, sizeof(*function->buckets));
	if (function->buckets)
		function->buckets[histogram_bucket(duration, LATENCY_BITS)]++;
}

/* The value below or at which `share` of the calls lie. Not histogram_quantile: counts of 32 bits
 * take half the memory, with a histogram per function. */
static uint64_t quantile(const struct latency_function *function, double share)
{
	uint64_t rank = (uint64_t)((double)function->calls * share), seen = 0;

	for (uint32_t i = 0; function->buckets && i < LATENCY_BUCKETS; i++) {
		seen += function->buckets[i];
		if (seen > rank || seen == function->calls) {
			uint64_t middle = histogram_middle(i, LATENCY_BITS);

			return middle < function->max ? middle : function->max;
		}
	}
	return 0;
}

void latency_times(const struct latency *latency, uint32_t entry_id,
		   struct tracepoint_times *ret_times)
{
	if (entry_id >= latency->count)
		return;
	const struct latency_function *function = &latency->functions[entry_id];
	*ret_times = (struct tracepoint_times){ .calls = function->calls,
						.total = function->total,
						.durations = function->durations,
						.self = function->self,
						.max = function->max,
						.p50 = quantile(function, 0.50),
						.p90 = quantile(function, 0.90),
						.p99 = quantile(function, 0.99),
						.self_known = !function->unnested };
}

/* ---- nesting -------------------------------------------------------------------------------- */

static struct latency_stream *find_stream(struct latency *latency, uint64_t number)
{
	size_t n =
		sorted_count(latency->streams.count, i, latency->streams.items[i].number < number);

	if (n < latency->streams.count && latency->streams.items[n].number == number)
		return &latency->streams.items[n];
	if (!vec_push(&latency->streams, (struct latency_stream){ 0 }))
		return NULL;
	struct latency_stream *at = &latency->streams.items[n];
	assert(n + 1 == latency->streams.count || at->number > number);
	memmove(at + 1, at, (latency->streams.count - 1 - n) * sizeof(*at));
	*at = (struct latency_stream){ .number = number };
	return at;
}

/* Closes the innermost open call of the function. Drops the calls inside it, which ended without an
 * exit. */
static bool close_call(struct latency *latency, struct latency_stream *stream, uint32_t id,
		       struct latency_call *ret_call)
{
	size_t at = stream->calls.count;
	uint64_t children = 0;

	while (at && stream->calls.items[at - 1].id != id)
		at--;
	if (!at)
		return false;
	for (size_t i = at; i < stream->calls.count; i++) {
		latency->functions[stream->calls.items[i].id].unnested = true;
		children += stream->calls.items[i].children;
	}
	*ret_call = stream->calls.items[at - 1];
	ret_call->children += children;
	stream->calls.count = at - 1;
	return true;
}

/* NULL: out of memory. */
static uint64_t *find_within(const struct latency *latency, struct latency_stream *stream,
			     uint32_t id)
{
	assert(id < latency->count);
	if (id >= stream->within_room) {
		uint64_t *more = calloc(latency->count, sizeof(*more));

		if (!more)
			return NULL;
		if (stream->within)
			memcpy(more, stream->within, stream->within_room * sizeof(*more));
		free(stream->within);
		stream->within = more;
		stream->within_room = latency->count;
	}
	return &stream->within[id];
}

static void open_call(const struct latency *latency, struct latency_stream *stream, uint32_t id)
{
	const uint64_t *within = find_within(latency, stream, id);

	vec_push(&stream->calls,
		 (struct latency_call){ .id = id, .within = within ? *within : 0 });
}

static void count_exit(struct latency *latency, struct latency_stream *stream, uint32_t id,
		       uint64_t duration)
{
	struct latency_function *function = &latency->functions[id];
	struct latency_call call;

	count_duration(function, duration);
	if (!stream || !close_call(latency, stream, id, &call)) {
		function->unnested = true;
		function->total += duration;
		return;
	}
	uint64_t *within = find_within(latency, stream, id);
	function->total += within ? call.within + duration - *within : duration;
	if (within)
		*within = call.within + duration;
	function->self += duration > call.children ? duration - call.children : 0;
	if (stream->calls.count)
		vec_last(&stream->calls)->children += duration;
}

void latency_events(struct latency *latency, uint64_t number, const uint64_t *events, size_t words)
{
	struct latency_stream *stream = find_stream(latency, number);

	for (size_t at = 0; at < words;) {
		uint64_t id = events[at] & DT_EVENT_ID_MASK;

		if (id >= latency->types->count)
			return;
		const struct event_type *type = &latency->types->items[id];
		size_t size = type->is_variable ? event_measure(type, events + at, (words - at) * 8)
						: type->size;
		if (!size || (size + 7) / 8 > words - at)
			return;
		enum role role = id < latency->count ? latency->roles[id] : ROLE_NONE;
		if (role == ROLE_ENTRY && stream)
			open_call(latency, stream, (uint32_t)id);
		else if (role == ROLE_EXIT)
			count_exit(latency, stream, (uint32_t)id - 1,
				   events[at + latency->durations[id]]);
		at += (size + 7) / 8;
	}
}
