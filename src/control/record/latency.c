#include "latency.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "shared/layout.h"
#include "control/exits/code/exit_stub.h"

#define DEPTH_MAX (1u << 20) /* open calls, as in report */
#define CUT_MAX 4096 /* calls whose exits are waited for after a loss */
#define CLOCK_MASK ((1ULL << (64 - DT_EVENT_ID_BITS)) - 1)

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
	    !widen(&latency->kinds, from, room, sizeof(*latency->kinds)))
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

static struct latency_kind kind_of(const struct event_type *type, enum role role)
{
	return (struct latency_kind){
		.duration = role == ROLE_EXIT ? duration_word(type) : 0,
		.role = (uint8_t)role,
	};
}

bool latency_add(struct latency *latency, uint32_t entry_id)
{
	assert(entry_id + 1 < latency->types->count);
	if (!grow(latency))
		return false;
	/* an earlier function may have had the id */
	distribution_free(&latency->functions[entry_id].durations);
	latency->functions[entry_id] = (struct latency_function){ 0 };
	latency->kinds[entry_id] = kind_of(&latency->types->items[entry_id], ROLE_ENTRY);
	latency->kinds[entry_id + 1] = kind_of(&latency->types->items[entry_id + 1], ROLE_EXIT);
	return true;
}

void latency_free(struct latency *latency)
{
	for (size_t i = 0; i < latency->count && latency->functions; i++)
		distribution_free(&latency->functions[i].durations);
	for (size_t i = 0; i < latency->streams.count; i++) {
		vec_free(&latency->streams.items[i].calls);
		vec_free(&latency->streams.items[i].cut);
	}
	vec_free(&latency->streams);
	free(latency->functions);
	free(latency->kinds);
}

const struct distribution *latency_durations(const struct latency *latency, uint32_t entry_id)
{
	return entry_id < latency->count ? &latency->functions[entry_id].durations : NULL;
}

void latency_times(const struct latency *latency, uint32_t entry_id,
		   struct tracepoint_times *ret_times)
{
	if (entry_id >= latency->count)
		return;
	const struct latency_function *function = &latency->functions[entry_id];
	const struct distribution *durations = &function->durations;
	*ret_times = (struct tracepoint_times){
		.calls = durations->count,
		.total = function->total,
		.self = function->self,
		.durations = (uint64_t)durations->sum,
		.max = (uint64_t)durations->max,
		.p50 = (uint64_t)distribution_quantile(durations, 0.50),
		.p90 = (uint64_t)distribution_quantile(durations, 0.90),
		.p99 = (uint64_t)distribution_quantile(durations, 0.99),
		.self_known = durations->count > function->partial,
		.cut = function->cut,
	};
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

/* A batch that is being read. */
struct reading {
	struct latency *latency;
	struct latency_stream *stream; /* NULL: no memory for one */
	const struct latency_batch *batch;
	uint64_t clock; /* of the current event */
};

static struct latency_function *function_at(struct reading *reading, uint32_t id)
{
	struct latency_function *function = &reading->latency->functions[id];

	if (function->batch != reading->latency->batch) {
		function->batch = reading->latency->batch;
		function->top = LATENCY_NONE;
	}
	return function;
}

/* Finds the functions' innermost open calls, which other threads' batches have moved. */
static void find_tops(struct reading *reading)
{
	const struct latency_stream *stream = reading->stream;

	for (size_t i = 0; i < stream->calls.count; i++)
		function_at(reading, stream->calls.items[i].id)->top = (uint32_t)i;
}

/* Calls that are open now, and those whose exits come later, were cut (O2). */
static void take_loss(struct reading *reading)
{
	struct latency_stream *stream = reading->stream;

	for (size_t i = 0; i < stream->calls.count; i++) {
		reading->latency->functions[stream->calls.items[i].id].cut++;
		if (stream->cut.count < CUT_MAX)
			vec_push(&stream->cut, stream->calls.items[i].id);
	}
	stream->calls.count = 0;
	stream->lost = reading->batch->lost;
	stream->cut_before = reading->batch->begin;
}

static void push(struct reading *reading, uint32_t id)
{
	struct latency_stream *stream = reading->stream;
	struct latency_function *function = function_at(reading, id);

	if (stream->calls.count >= DEPTH_MAX ||
	    (stream->calls.count == stream->calls.room && !vec_reserve(&stream->calls, 1)))
		return;
	/* member by member: a processor waits for stores that it loads at once in another width */
	struct latency_call *call = &stream->calls.items[stream->calls.count];
	call->id = id;
	call->below = function->top;
	call->children = 0;
	call->inside = 0;
	function->top = (uint32_t)stream->calls.count++;
}

/* Takes the innermost call off, which is one of that function. It is valid until the next push. */
static inline const struct latency_call *pop(struct reading *reading,
					     struct latency_function *function)
{
	struct latency_stream *stream = reading->stream;
	const struct latency_call *call = &stream->calls.items[--stream->calls.count];

	function->top = call->below;
	return call;
}

/* Takes a call off that ended without an exit. Its children become those of the call around it. */
static void drop(struct reading *reading)
{
	struct latency_stream *stream = reading->stream;
	const struct latency_call *call =
		pop(reading, function_at(reading, vec_last(&stream->calls)->id));

	if (call->below != LATENCY_NONE)
		stream->calls.items[call->below].inside += call->inside;
	if (stream->calls.count)
		vec_last(&stream->calls)->children += call->children;
}

/* (O2) Did the call begin before the last loss? */
static bool is_cut(const struct reading *reading, uint64_t duration)
{
	double cycles = (double)duration * (double)reading->batch->frequency / 1e9;
	uint64_t before = reading->stream->cut_before;

	return before && (cycles >= (double)reading->clock ||
			  reading->clock - (uint64_t)cycles < before);
}

/* Counts a call that was cut, unless it was counted when the loss came. */
static void count_cut(struct reading *reading, uint32_t id)
{
	struct latency_stream *stream = reading->stream;

	for (size_t i = stream->cut.count; i-- > 0;)
		if (stream->cut.items[i] == id) {
			stream->cut.items[i] = *vec_last(&stream->cut);
			stream->cut.count--;
			return;
		}
	reading->latency->functions[id].cut++;
}

/* `call` is NULL if its entry isn't there. */
static inline void count_call(struct reading *reading, struct latency_function *function,
			      const struct latency_call *call, uint64_t duration)
{
	struct latency_stream *stream = reading->stream;
	uint64_t children = call ? call->children : 0, inside = call ? call->inside : 0;

	if (!distribution_add(&function->durations, (int64_t)duration, 1))
		return;
	function->total += duration > inside ? duration - inside : 0; /* O1 */
	if (call && call->below != LATENCY_NONE)
		stream->calls.items[call->below].inside += duration;
	if (call && !reading->batch->is_pairs)
		function->self += duration > children ? duration - children : 0;
	else
		function->partial++; /* O3 */
	if (stream && stream->calls.count)
		vec_last(&stream->calls)->children += duration;
}

static void end_call(struct reading *reading, uint32_t id, uint64_t duration)
{
	struct latency_stream *stream = reading->stream;
	struct latency_function *function = function_at(reading, id);
	uint32_t top = function->top;

	duration = duration < INT64_MAX ? duration : INT64_MAX;
	if (!stream || top == LATENCY_NONE) {
		if (stream && is_cut(reading, duration))
			count_cut(reading, id);
		else
			count_call(reading, function, NULL, duration);
		return;
	}
	while (stream->calls.count - 1 > top)
		drop(reading);
	count_call(reading, function, pop(reading, function), duration);
}

static void begin_batch(struct reading *reading)
{
	reading->latency->batch++;
	reading->stream = find_stream(reading->latency, reading->batch->stream);
	if (!reading->stream)
		return;
	if (reading->batch->lost > reading->stream->lost)
		take_loss(reading);
	find_tops(reading);
}

/* Counts a call whose exit comes right behind its entry, as push and end_call would, who wait for
 * what they have just stored. */
static inline void count_leaf(struct reading *reading, uint32_t id, uint64_t duration)
{
	struct latency_function *function = function_at(reading, id);
	const struct latency_call leaf = { .id = id, .below = function->top };

	count_call(reading, function, &leaf, duration < INT64_MAX ? duration : INT64_MAX);
}

/* Words of the event; 0: it doesn't match its type. */
static size_t words_of(const struct latency *latency, const uint64_t *event, size_t left)
{
	uint64_t id = *event & DT_EVENT_ID_MASK;
	size_t words = 0;

	if (id < latency->types->count) {
		const struct event_type *type = &latency->types->items[id];

		words = type->is_variable ? (event_measure(type, event, left * 8) + 7) / 8 :
					    type->size / 8;
	}
	return words <= left ? words : 0;
}

/* The events of a batch that weren't read yet. */
struct rest {
	const uint64_t *at, *end;
	const uint16_t *lengths; /* of the batch, from the event on */
};

/* Goes to the next event, and takes the clock of this one. False: it doesn't match its type. */
static inline bool pass(struct reading *reading, struct rest *rest)
{
	/* with lengths, a processor begins with the next event before it has looked at this one */
	size_t words = rest->lengths ? *rest->lengths++ :
				       words_of(reading->latency, rest->at,
						(size_t)(rest->end - rest->at));

	reading->clock += ((*rest->at >> DT_EVENT_ID_BITS) - reading->clock) & CLOCK_MASK;
	rest->at += words;
	return words;
}

/* The kind of an entry or exit; NULL: neither. */
static inline const struct latency_kind *kind_at(const struct latency *latency,
						 const uint64_t *event)
{
	uint64_t id = *event & DT_EVENT_ID_MASK;

	return id < latency->count && latency->kinds[id].role ? &latency->kinds[id] : NULL;
}

/* Is the next event the exit of that entry? So most calls are, which have none inside. */
static inline bool ends_at_once(const struct rest *rest, uint32_t id)
{
	return rest->at < rest->end && (*rest->at & DT_EVENT_ID_MASK) == id + 1;
}

void latency_events(struct latency *latency, const struct latency_batch *batch)
{
	struct reading reading = { .latency = latency, .batch = batch, .clock = batch->begin };
	struct rest rest = { .at = batch->events,
			     .end = batch->events + batch->words,
			     .lengths = batch->lengths };

	begin_batch(&reading);
	while (rest.at < rest.end) {
		const uint64_t *event = rest.at;
		const struct latency_kind *kind = kind_at(latency, event);
		uint32_t id = (uint32_t)(*event & DT_EVENT_ID_MASK);

		if (!pass(&reading, &rest))
			return;
		if (!kind)
			continue;
		if (kind->role == ROLE_EXIT) {
			end_call(&reading, id - 1, event[kind->duration]);
		} else if (reading.stream && ends_at_once(&rest, id)) {
			event = rest.at;
			if (!pass(&reading, &rest))
				return;
			count_leaf(&reading, id, event[kind[1].duration]);
		} else if (reading.stream) {
			push(&reading, id);
		}
	}
}
