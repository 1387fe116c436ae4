/*
 * pairs.c - calls that are recorded at their exit (R10): from one event of the pool to two of the
 * trace, each with its own time.
 *
 * A trace's packet has its events in order of time, but the entry of a pair is older than events
 * that were written before it: those of calls inside it. So pairs have packets of their own, beside
 * the thread's other events: sorted within one reading, and in another lane if a packet begins
 * before the end of the one before it (writer.h). Readers of a trace merge lanes by time, and so
 * see the calls as they were. As a rule two or three lanes are enough, however many calls there
 * are.
 *
 * (V4) A packet of pairs has its events in order of time; those that have one clock as they
 *      happened: first exits, then calls that took no time, then entries, the outermost first.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/ctf/writer.h"
#include "sift.h"

#define BUFFER_WORDS (DT_CHUNK_BIG / 8)
#define NEAR_MOVES 4 /* per event, on average */

enum pair_part { PAIR_EXIT, PAIR_BRIEF, PAIR_ENTRY }; /* in this order (V4) */

struct pair_event {
	uint64_t clock;
	uint32_t at, words; /* in pairs.events */
	uint32_t number; /* of its pair, in order of exits */
	enum pair_part part;
};

struct pairs {
	VEC(struct pair_event) items;
	uint64_t count; /* of pairs */
	size_t used; /* words of `events` */
	uint64_t events[BUFFER_WORDS], sorted[BUFFER_WORDS];
	uint16_t lengths[BUFFER_WORDS]; /* reader_batch.lengths of `sorted` */
};

void pairs_free(struct pairs *pairs)
{
	if (!pairs)
		return;
	vec_free(&pairs->items);
	free(pairs);
}

static bool is_pair(const struct reader *reader, const uint64_t *event)
{
	return reader->options.types->items[*event & DT_EVENT_ID_MASK].is_pair;
}

/* ---- out of the copy ------------------------------------------------------------------------- */

static bool has_any(const struct reader *reader, const struct walk *walk)
{
	const uint64_t *at = reader->buffer;

	for (uint64_t i = 0; i < walk->count; i++, at += readout_words(reader, at)) {
		if (is_pair(reader, at))
			return true;
	}
	return false;
}

/* There is room for it (begin). */
static void add_event(struct pairs *pairs, uint64_t clock, uint32_t id, const uint64_t *fields,
		      size_t words, enum pair_part part)
{
	struct pair_event item = { .clock = clock,
				   .at = (uint32_t)pairs->used,
				   .words = (uint32_t)words,
				   .number = (uint32_t)pairs->count,
				   .part = part };

	assert(words && pairs->used + words <= BUFFER_WORDS);
	assert(pairs->items.count < pairs->items.room);
	pairs->events[pairs->used] = clock << DT_EVENT_ID_BITS | id;
	memcpy(pairs->events + pairs->used + 1, fields, (words - 1) * 8);
	pairs->used += words;
	pairs->items.items[pairs->items.count++] = item;
}

/* Makes two events of a pair, whose exit has that clock. */
static void split(struct reader *reader, const struct stream *stream, const uint64_t *at,
		  size_t words, uint64_t clock)
{
	struct pairs *pairs = reader->pairs;
	uint32_t id = (uint32_t)(*at & DT_EVENT_ID_MASK);
	const struct event_type *exit = &reader->options.types->items[id];
	size_t entry = event_measure_entry(exit, at, words * 8) / 8;
	/* the target's word */
	uint64_t begin = at[1] < clock ? at[1] : clock;
	bool is_brief = begin == clock;

	assert(exit->is_pair && entry && entry < words); /* R10 */
	add_event(pairs, begin, id - 1, at + 2, entry, is_brief ? PAIR_BRIEF : PAIR_ENTRY);
	add_event(pairs, clock, id, at + 1 + entry, words - entry,
		  is_brief ? PAIR_BRIEF : PAIR_EXIT);
	pairs->count++;
	reader->hits[id - 1]++;
	open_calls_returned(reader, stream, id - 1, at[1]);
}

/* sift_keeps_fn: a pair goes to reader->pairs. */
static bool is_single(const struct sift *sift)
{
	if (!is_pair(sift->reader, sift->event))
		return true;
	if (sift->clock > sift->stream->pairs_until)
		split(sift->reader, sift->stream, sift->event, sift->words, sift->clock);
	else
		sift->reader->hits[*sift->event & DT_EVENT_ID_MASK]--;
	return false;
}

/* No file took the event. */
static void lose_one(struct reader *reader, struct stream *stream, uint64_t id)
{
	reader->unwritten[id]++;
	stream->unwritten++;
	reader->totals.lost++;
	reader->totals.unwritten++;
}

/* sift_keeps_fn: there is no memory for pairs, and there won't be another reading. */
static bool is_kept(const struct sift *sift)
{
	uint64_t id = *sift->event & DT_EVENT_ID_MASK;

	if (!is_pair(sift->reader, sift->event))
		return true;
	sift->reader->hits[id]--;
	if (sift->clock <= sift->stream->pairs_until)
		return false; /* written, or lost before */
	lose_one(sift->reader, sift->stream, id - 1);
	lose_one(sift->reader, sift->stream, id);
	sift->stream->read++;
	return false;
}

/* ---- in order -------------------------------------------------------------------------------- */

/* (V4) */
static int by_time(const void *a, const void *b)
{
	const struct pair_event *x = a, *y = b;

	if (x->clock != y->clock)
		return x->clock < y->clock ? -1 : 1;
	if (x->part != y->part)
		return x->part < y->part ? -1 : 1;
	if (x->number != y->number)
		return (x->number < y->number) == (x->part != PAIR_ENTRY) ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

/* Calls return in order, and most of them have few calls inside: their entries move a little. Sorts
 * them so; false: they would move far. */
static bool sort_near(struct pair_event *items, size_t count)
{
	size_t left = count * NEAR_MOVES;

	for (size_t i = 1; i < count; i++) {
		struct pair_event item = items[i];
		size_t at = i;

		for (; at && by_time(&item, &items[at - 1]) < 0; at--) {
			if (!left--) {
				items[at] = item;
				return false;
			}
			items[at] = items[at - 1];
		}
		items[at] = item;
	}
	return true;
}

static size_t padding_of(const struct reader *reader, const struct pairs *pairs,
			 const struct pair_event *item)
{
	const uint64_t *event = pairs->events + item->at;
	uint64_t id = *event & DT_EVENT_ID_MASK;
	const struct event_type *type = &reader->options.types->items[id];

	if (!type->is_variable)
		return reader->padding[id];
	return item->words * 8 - event_measure(type, event, item->words * 8);
}

/* The trace has too many lanes for an entry as old as that: it gets the clock of the thread's last
 * packet, and is counted as set back. */
static void bring_forward(struct reader *reader, const struct stream *stream, struct pairs *pairs)
{
	struct trace_writer *writer = reader->sink.writer;

	if (!writer || !writer_is_crowded(writer, pairs->items.items[0].clock))
		return;
	for (size_t i = 0; i < pairs->items.count; i++) {
		struct pair_event *item = &pairs->items.items[i];
		uint64_t id = pairs->events[item->at] & DT_EVENT_ID_MASK;

		if (item->clock >= stream->pairs_end)
			break;
		item->clock = stream->pairs_end;
		pairs->events[item->at] = item->clock << DT_EVENT_ID_BITS | id;
		reader->totals.stepped_back++;
	}
}

/* ---- into the trace -------------------------------------------------------------------------- */

static void uncount(struct reader *reader, const struct pairs *pairs, size_t from)
{
	for (size_t i = from; i < pairs->items.count; i++)
		reader->hits[pairs->events[pairs->items.items[i].at] & DT_EVENT_ID_MASK]--;
}

/* No file took the events from that one on. */
static void lose(struct reader *reader, struct stream *stream, const struct pairs *pairs,
		 size_t from)
{
	for (size_t i = from; i < pairs->items.count; i++)
		lose_one(reader, stream,
			 pairs->events[pairs->items.items[i].at] & DT_EVENT_ID_MASK);
}

static void observe(struct reader *reader, const struct stream *stream, const struct packet *packet)
{
	struct reader_batch batch = { .stream = stream->pairs,
				      .pid = packet->pid,
				      .tid = packet->tid,
				      .process = packet->process,
				      .begin = packet->begin,
				      .events = packet->events,
				      .words = packet->size / 8,
				      .lengths = reader->pairs->lengths,
				      .is_pairs = true };

	if (reader->options.observe)
		reader->options.observe(reader->options.observe_context, &batch);
}

/* Writes a packet of the sorted events from `from` on; neighbours in it have clocks that 40 bits
 * tell apart (B6). *ret_next: the event behind it. */
static struct error *write_packet(struct reader *reader, struct stream *stream, size_t from,
				  size_t *ret_next)
{
	struct pairs *pairs = reader->pairs;
	const struct pair_event *items = pairs->items.items;
	struct packet packet = { .begin = items[from].clock, .events = pairs->sorted };
	size_t next = from, words = 0;

	do {
		pairs->lengths[next - from] = (uint16_t)items[next].words;
		memcpy(pairs->sorted + words, pairs->events + items[next].at,
		       items[next].words * 8);
		words += items[next].words;
		assert(next == from || items[next].clock >= packet.end); /* V4 */
		packet.end = items[next].clock;
		next++;
	} while (next < pairs->items.count &&
		 !((items[next].clock - packet.end) >> DT_CLOCK_GAP_SHIFT));
	packet.size = words * 8;
	packet.count = next - from;
	packet.padding = padding_of(reader, pairs, &items[next - 1]);
	struct error *error = stream_write_pairs(stream, &reader->sink, &packet);
	if (error)
		return error;
	if (stream->pairs_end < packet.end)
		stream->pairs_end = packet.end;
	observe(reader, stream, &packet);
	reader->totals.events += next - from;
	reader->totals.bytes += packet.size;
	*ret_next = next;
	return NULL;
}

/* *ret_settled: each event is written, or counted as lost; else all of them will be read again. */
static struct error *write_all(struct reader *reader, struct stream *stream, bool *ret_settled)
{
	struct pairs *pairs = reader->pairs;

	if (!sort_near(pairs->items.items, pairs->items.count))
		qsort(pairs->items.items, pairs->items.count, sizeof(*pairs->items.items), by_time);
	bring_forward(reader, stream, pairs);
	for (size_t i = 0; i < pairs->items.count;) {
		struct error *error = write_packet(reader, stream, i, &i);

		if (!error)
			continue;
		uncount(reader, pairs, i); /* V3 */
		*ret_settled = stream_gives_up(&reader->sink, error);
		if (*ret_settled)
			error = NULL;
		*ret_settled |= i > 0; /* what is written can't be told from the rest again */
		if (*ret_settled)
			lose(reader, stream, pairs, i);
		return error;
	}
	*ret_settled = true;
	return NULL;
}

/* Empties reader->pairs, and makes room for that many events. False: out of memory. */
static bool begin(struct reader *reader, size_t events)
{
	if (!reader->pairs)
		reader->pairs = calloc(1, sizeof(*reader->pairs));
	if (!reader->pairs)
		return false;
	reader->pairs->items.count = reader->pairs->count = reader->pairs->used = 0;
	return vec_reserve(&reader->pairs->items, events);
}

static struct error *no_memory(void)
{
	return error_new(ERROR_FAILED, "out of memory");
}

struct error *pairs_write(struct reader *reader, struct stream *stream, struct walk *walk,
			  const uint16_t *lengths)
{
	struct sift sift = { .reader = reader, .stream = stream, .walk = walk, .lengths = lengths };

	if (!has_any(reader, walk))
		return NULL;
	if (!begin(reader, 2 * walk->count)) {
		struct error *error = no_memory();

		if (!stream_gives_up(&reader->sink, error))
			return error;
		sift_events(&sift, is_kept);
		return NULL;
	}
	sift_events(&sift, is_single);
	bool is_settled;
	struct error *error = write_all(reader, stream, &is_settled);
	if (is_settled)
		stream->read += reader->pairs->count;
	if (error && is_settled)
		stream->pairs_until = walk->clock;
	return error;
}

struct error *pairs_lose_entries(struct reader *reader, uint32_t id, uint64_t count)
{
	struct error *error = no_memory();

	if (!stream_gives_up(&reader->sink, error))
		return error;
	reader->unwritten[id] += count;
	reader->totals.lost += count;
	reader->totals.unwritten += count;
	return NULL;
}

struct error *pairs_write_entry(struct reader *reader, struct stream *stream,
				const struct open_call *call)
{
	bool is_settled;

	if (!call->event || !begin(reader, 1)) {
		struct error *error = no_memory();

		if (!stream_gives_up(&reader->sink, error))
			return error;
		lose_one(reader, stream, call->id);
		return NULL;
	}
	add_event(reader->pairs, call->begin, call->id, call->event + 1, call->words, PAIR_ENTRY);
	reader->hits[call->id]++;
	return write_all(reader, stream, &is_settled);
}
