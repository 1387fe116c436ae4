/*
 * readout.c - read one chunk, as far as its events are complete, into the trace.
 *
 * (V3) Events are counted as hits when their packet has been written, and as lost when the trace
 *      ends without them; of pairs, also if only a part of one reading could be written.
 * (V7) Chunks of a thread that follow one another share a packet, as many whole ones as fit: a
 *      packet by itself costs as much as several KiB of events. reader_progress tells of each that
 *      it has been read, once the packet is written.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/ctf/writer.h"
#include "reader_state.h"
#include "walk.h"

/* ---- sizes of events ---------------------------------------------------------------------- */

static struct error *readout_measure_type(struct reader *reader, size_t id)
{
	struct event_type *type = &reader->options.types->items[id];
	size_t end = type->size ? sizeof(uint64_t) : 0;

	if (type->size % 8 || type->size > DT_EVENT_SIZE_MAX)
		return error_new(ERROR_FAILED, "event '%s' has a size of %u bytes",
				 type->name ? type->name : "", type->size);
	if (type->is_pair && (!id || (!type->is_variable && type[-1].is_variable) ||
			      event_type_pool_size(type) > DT_EVENT_SIZE_MAX))
		return error_new(ERROR_FAILED, "event '%s' is no exit",
				 type->name ? type->name : "");
	reader->has_pairs |= type->is_pair;
	if (!type->size) { /* never in a chunk: its hits are counted elsewhere */
		reader->sizes[id] = 0;
		return NULL;
	}
	if (type->is_variable) {
		event_type_learn(type);
		size_t texts = type->field_count - type->fixed_count;

		reader->sizes[id] = type->is_plain && !type->is_pair && texts < 1u << 15 ?
					    WALK_KIND(type->fixed_end, texts) :
					    WALK_VARIABLE;
		return NULL;
	}
	for (size_t i = 0; i < type->field_count; i++) {
		if (end < event_field_end(&type->fields[i]))
			end = event_field_end(&type->fields[i]);
	}
	if (end > type->size)
		return error_new(ERROR_FAILED, "event '%s' is shorter than its fields",
				 type->name ? type->name : "");
	reader->sizes[id] = event_type_pool_size(type);
	reader->padding[id] = type->size - end < 8 ? (uint8_t)(type->size - end) : 0;
	return NULL;
}

struct error *readout_learn_types(struct reader *reader)
{
	size_t count = reader->options.types->count;

	if (count == reader->type_count)
		return NULL;
	if (count > DT_EVENTS_MAX)
		return error_new(ERROR_FAILED, "more than %u kinds of events", DT_EVENTS_MAX);
	for (size_t id = reader->type_count; id < count; id++) {
		struct error *error = readout_measure_type(reader, id);

		if (error)
			return error;
		reader->type_count = id + 1;
	}
	return NULL;
}

void readout_tell_types(struct reader *reader)
{
	for (size_t id = 0; id < reader->type_count; id++) {
		struct event_type *type = &reader->options.types->items[id];
		uint64_t lost =
			__atomic_load_n(&reader->pool.base->tallies[id].lost, __ATOMIC_RELAXED);

		type->hits = reader->hits[id];
		reader->tallied[id] = losses_believe(&reader->losses, reader->tallied[id], lost);
		lost = reader->tallied[id] + reader->unwritten[id];
		if (type->lost < lost)
			type->lost = lost;
	}
}

/* ---- one chunk ---------------------------------------------------------------------------- */

struct stream *readout_stream(struct reader *reader, uint32_t thread)
{
	struct stream *stream = &reader->streams[thread];
	struct dt_thread record;

	assert(thread < DT_THREADS_MAX);
	if (!stream->open) {
		pool_thread(&reader->pool, thread, &record);
		stream_open(stream, &reader->sink, &record, &reader->options);
		if (reader->options.resume) {
			stream->skip = reader->options.resume[thread].end;
			stream->skip_pairs = reader->options.resume[thread].pairs_end;
			stream->carried = reader->options.resume[thread].told;
		}
	}
	return stream;
}

struct reader_progress *readout_progress(struct reader *reader, uint32_t index, uint64_t word)
{
	struct reader_progress *progress = &reader->progress[index];

	assert(index < reader->pool.chunk_count);
	if (progress->generation != DT_CHUNK_GENERATION(word))
		*progress = (struct reader_progress){ .generation = DT_CHUNK_GENERATION(word) };
	return progress;
}

size_t readout_words(const struct reader *reader, const uint64_t *event)
{
	uint64_t id = *event & DT_EVENT_ID_MASK;
	const struct event_type *type = &reader->options.types->items[id];
	size_t size = reader->sizes[id];

	if (size & WALK_VARIABLE && type->is_pair)
		event_measure_pair(type, event, DT_EVENT_SIZE_MAX, &size);
	else if (size & WALK_VARIABLE)
		size = event_measure(type, event, DT_EVENT_SIZE_MAX);
	return (size + 7) / 8;
}

void readout_keep(const struct reader *reader, struct walk *walk, uint64_t *to, const uint64_t *at,
		  size_t words, uint64_t clock)
{
	uint64_t id = *at & DT_EVENT_ID_MASK;

	memmove(to, at, words * 8);
	if (!walk->count++)
		walk->first_clock = clock;
	walk->last_id = (uint32_t)id;
	/* a pair isn't written as it is */
	if (reader->sizes[id] & WALK_VARIABLE && !reader->options.types->items[id].is_pair)
		walk->last_padding =
			(uint32_t)(words * 8 - event_measure(&reader->options.types->items[id], to,
							     DT_EVENT_SIZE_MAX));
}

/* Drops events that the trace has already from the front of the copy that walk_events made. */
static void readout_skip(struct reader *reader, struct stream *stream, struct walk *walk)
{
	uint64_t *at = reader->buffer, clock = walk->first_clock, count = 0;

	while (count < walk->count && clock <= stream->skip) {
		uint64_t before = *at >> DT_EVENT_ID_BITS;

		at += readout_words(reader, at);
		count++;
		if (count < walk->count)
			clock += walk_ahead(*at, before);
	}
	assert(at <= walk->to);
	walk_uncount(walk, reader->buffer, count);
	memmove(reader->buffer, at, (size_t)(walk->to - at) * 8);
	walk->to -= at - reader->buffer;
	walk->first_clock = clock;
	walk->count -= count;
	stream->read += count;
}

/* The next copy begins where the last one did. */
static void readout_rewind(const struct reader *reader, struct walk *walk)
{
	walk->to = reader->buffer;
	walk->lengths = reader->lengths;
}

/* No file took the events that the last walk_events copied. */
static void readout_lose(struct reader *reader, struct stream *stream, struct walk *walk)
{
	const uint64_t *at = reader->buffer;

	for (uint64_t i = 0; i < walk->count; i++) {
		reader->unwritten[*at & DT_EVENT_ID_MASK]++;
		at += readout_words(reader, at);
	}
	assert(at <= walk->to);
	stream->read += walk->count;
	stream->unwritten += walk->count;
	reader->totals.lost += walk->count;
	reader->totals.unwritten += walk->count;
	readout_rewind(reader, walk);
}

/* Drops what isn't for the trace from the copy that walk_events made. */
static void readout_sift(struct reader *reader, struct stream *stream, struct walk *walk)
{
	if (walk->count && stream->skip && !reader->has_pairs) /* else pause_apply does */
		readout_skip(reader, stream, walk);
	if (walk->count)
		pause_apply(reader, stream, walk);
	if (walk->count && (reader->options.only_inside || reader->options.has_depth))
		nesting_apply(reader, stream, walk);
}

/* (V3) The copy counts as never made: its events will be read, and dropped, again. */
static void readout_take_back(struct reader *reader, struct stream *stream, struct walk *walk,
			      uint64_t dropped, uint64_t outside)
{
	walk_uncount(walk, reader->buffer, walk->count);
	nesting_forget(stream);
	stream->read -= dropped;
	reader->totals.outside = outside;
}

/* Writes the events that the last walk_events copied. `next`: the chunk behind them. */
static struct error *readout_write(struct reader *reader, struct stream *stream,
				   const struct reader_entry *next, struct walk *walk)
{
	struct packet packet = {
		.end = walk->clock,
		.events = reader->buffer,
	};
	uint64_t copied = walk->count, outside = reader->totals.outside, dropped = stream->read;

	readout_sift(reader, stream, walk);
	dropped = stream->read - dropped;
	if (walk->count && reader->has_pairs) {
		struct error *error =
			pairs_write(reader, stream, walk,
				    copied == walk->count ? reader->lengths : NULL);

		if (error) {
			readout_take_back(reader, stream, walk, dropped, outside);
			return error;
		}
	}
	assert(walk->to >= reader->buffer && walk->to <= reader->buffer + reader->room / 8);
	packet.begin = walk->first_clock;
	packet.size = (size_t)(walk->to - reader->buffer) * 8;
	packet.count = walk->count;
	if (!walk->count) {
		readout_rewind(reader, walk);
		return NULL;
	}
	packet.padding = reader->sizes[walk->last_id] & WALK_VARIABLE ?
				 walk->last_padding :
				 reader->padding[walk->last_id];
	packet.aside = readahead_aside(reader, next, packet.end, packet.size);
	struct error *error = stream_write(stream, &reader->sink, &packet);
	if (error && !stream_gives_up(&reader->sink, error)) {
		readout_take_back(reader, stream, walk, dropped, outside);
		stream->pairs_until = walk->clock; /* they are written */
		return error;
	}
	if (error) {
		walk_uncount(walk, reader->buffer, walk->count); /* V3 */
		nesting_forget(stream);
		readout_lose(reader, stream, walk);
		return NULL;
	}
	struct reader_batch batch = { .stream = stream->number,
				      .pid = packet.pid,
				      .tid = packet.tid,
				      .process = packet.process,
				      .begin = packet.begin,
				      .events = reader->buffer,
				      .words = packet.size / 8,
				      .lengths = copied == walk->count ? reader->lengths : NULL,
				      .lost = packet.lost };
	if (reader->options.observe)
		reader->options.observe(reader->options.observe_context, &batch);
	stream->pairs_until = 0;
	stream->read += walk->count;
	reader->totals.events += walk->count;
	reader->totals.bytes += packet.size;
	readout_rewind(reader, walk);
	return NULL;
}

/* Bytes to read: of a published chunk as many as its owner says, of others all. */
static uint32_t readout_extent(const struct reader *reader, uint32_t index, uint64_t word,
			       const struct dt_chunk *desc)
{
	uint32_t size = pool_chunk_size(&reader->pool, index);

	if (DT_CHUNK_STATE(word) != DT_CHUNK_PUBLISHED)
		return size;
	return (desc->used < size ? desc->used : size) & ~7u;
}

/* Skips an incomplete event, and counts it. Zeroes up to the end of a chunk that was never
 * published are no hole: they were never used. */
static void readout_pass_hole(struct reader *reader, struct stream *stream, struct walk *walk,
			      struct reader_progress *progress, bool published)
{
	const uint64_t *hole = walk->from;

	if (!walk_skip(walk) || (walk->stop == WALK_EMPTY && !walk->words && !published))
		return;
	if (!progress->holed) {
		const uint64_t *start =
			pool_chunk(&reader->pool, (uint32_t)(progress - reader->progress));

		assert(hole >= start);
		progress->holed = true;
		progress->hole = (uint32_t)(hole - start) * 8;
	}
	progress->found++;
	stream->holes++;
	reader->totals.holes++;
}

void readout_begin(struct reader *reader, const struct reader_entry *entry,
		   const struct dt_chunk *desc, uint64_t clock, struct walk *walk)
{
	uint32_t done = readout_progress(reader, entry->index, entry->word)->done;
	uint32_t extent = readout_extent(reader, entry->index, entry->word, desc);

	*walk = (struct walk){
		.sizes = reader->sizes,
		.types = reader->options.types,
		.hits = reader->hits,
		.id_count = (uint32_t)reader->type_count,
		.from = (uint64_t *)pool_chunk(&reader->pool, entry->index) + done / 8,
		.to = walk->to,
		.lengths = walk->lengths,
		.words = extent > done ? (extent - done) / 8 : 0,
		.clock = clock,
	};
}

static void readout_start(struct reader *reader, const struct reader_entry *entry,
			  struct stream *stream, const struct dt_chunk *desc, struct walk *ret_walk)
{
	const struct reader_progress *progress =
		readout_progress(reader, entry->index, entry->word);
	uint64_t begin = progress->begun ? progress->clock : desc->begin;
	uint64_t now = reader_now(reader);
	uint64_t clock = stream_seek(stream, &reader->sink, begin < now ? begin : now);

	readout_rewind(reader, ret_walk);
	readout_begin(reader, entry, desc, clock, ret_walk);
	stream_note_lost(stream, &reader->sink, desc->lost);
}

/* ---- chunks that share a packet ----------------------------------------------------------- */

bool readout_is_untouched(const struct reader *reader, const struct reader_entry *entry)
{
	const struct reader_progress *progress = &reader->progress[entry->index];

	return DT_CHUNK_STATE(entry->word) == DT_CHUNK_PUBLISHED &&
	       !(progress->generation == DT_CHUNK_GENERATION(entry->word) && progress->begun);
}

/* Can the chunk's events stand behind those of the walk, in one packet? Continues the walk. */
static bool readout_follows(const struct reader *reader, const struct reader_entry *entry,
			    uint64_t lost, const uint64_t *buffer, struct walk *walk)
{
	uint64_t now = reader_now(reader);
	struct dt_chunk desc;

	if (!readout_is_untouched(reader, entry))
		return false;
	pool_desc(&reader->pool, entry->index, &desc);
	uint32_t extent = readout_extent(reader, entry->index, entry->word, &desc);
	uint64_t begin = desc.begin < now ? desc.begin : now;
	bool is_near = begin < walk->clock ? walk->clock - begin <= STREAM_SKEW :
					     !((begin - walk->clock) >> (DT_CLOCK_GAP_SHIFT - 1));
	if (!is_near || desc.lost != lost || !extent ||
	    (size_t)(walk->to - buffer) * 8 + extent > reader->room)
		return false;
	walk->from = pool_chunk(&reader->pool, entry->index);
	walk->words = extent / 8;
	walk->clock = begin < walk->clock ? walk->clock : begin;
	return true;
}

/* (V7) Copies the chunks behind the first one, too, up to one that doesn't fit or isn't complete.
 * Returns their number. */
static size_t readout_join(const struct reader *reader, const struct reader_entry *entries,
			   uint64_t lost, const uint64_t *buffer, struct walk *walk)
{
	const struct reader_entry *end = reader->entries.items + reader->entries.count;
	size_t joined = 0;

	for (const struct reader_entry *next = entries + 1;
	     next < end && next->thread == entries->thread &&
	     next->sequence == next[-1].sequence + 1;
	     next++, joined++) {
		struct walk before = *walk;

		if (!readout_follows(reader, next, lost, buffer, walk))
			break;
		walk_on(walk);
		if (walk->stop != WALK_END) { /* it is read by itself */
			walk_uncount(walk, before.to, walk->count - before.count);
			*walk = before;
			break;
		}
	}
	return joined;
}

size_t readout_copy(const struct reader *reader, const struct reader_entry *entry, uint64_t lost,
		    const uint64_t *buffer, struct walk *walk)
{
	bool published = DT_CHUNK_STATE(entry->word) == DT_CHUNK_PUBLISHED;

	walk_events(walk);
	return walk->count && published && walk->stop == WALK_END ?
		       readout_join(reader, entry, lost, buffer, walk) :
		       0;
}

/* Notes that their packet has been written. */
static void readout_note_joined(struct reader *reader, const struct reader_entry *entries,
				size_t count, uint64_t clock)
{
	for (size_t i = 0; i < count; i++) {
		struct reader_progress *progress =
			readout_progress(reader, entries[i].index, entries[i].word);

		progress->begun = true;
		progress->clock = clock;
		progress->done = pool_chunk_size(&reader->pool, entries[i].index);
	}
}

struct error *readout_chunk(struct reader *reader, const struct reader_entry *entry, bool force,
			    enum readout_result *ret_result)
{
	struct stream *stream = readout_stream(reader, entry->thread);
	struct reader_progress *progress = readout_progress(reader, entry->index, entry->word);
	bool published = DT_CHUNK_STATE(entry->word) == DT_CHUNK_PUBLISHED;
	struct dt_chunk desc;
	struct walk walk;

	pool_desc(&reader->pool, entry->index, &desc);
	readout_start(reader, entry, stream, &desc, &walk);
	uint32_t end = progress->done + (uint32_t)walk.words * 8;
	for (;;) {
		size_t joined;

		if (!readahead_take(reader, entry, desc.lost, &walk, &joined))
			joined = readout_copy(reader, entry, desc.lost, reader->buffer, &walk);
		if (walk.stop == WALK_PENDING && walk.clock < reader->unfinished)
			reader->unfinished = walk.clock;
		struct error *error = readout_write(reader, stream, entry + 1 + joined, &walk);
		if (error)
			return error;
		readout_note_joined(reader, entry + 1, joined, walk.clock);
		progress->begun = true;
		progress->found += walk.count;
		progress->clock = walk.clock;
		/* A broken event of a published chunk stays broken. */
		bool pass = force || (published && walk.stop == WALK_BROKEN);
		if (walk.stop != WALK_END && pass)
			readout_pass_hole(reader, stream, &walk, progress, published);
		progress->done = end - (uint32_t)walk.words * 8;
		assert(progress->done <= end);
		if (!walk.words || !pass)
			break;
	}
	reader->totals.stepped_back += walk.stepped_back;
	*ret_result = walk.words ? READOUT_WAITS : progress->holed ? READOUT_AROUND : READOUT_DONE;
	return NULL;
}

void readout_account(struct reader *reader, const struct reader_entry *entry)
{
	struct stream *stream = &reader->streams[entry->thread];
	struct dt_chunk desc;

	pool_desc(&reader->pool, entry->index, &desc);
	uint32_t most = readout_extent(reader, entry->index, entry->word, &desc) / 8;
	if (DT_CHUNK_STATE(entry->word) == DT_CHUNK_PUBLISHED)
		stream->claimed += desc.count < most ? desc.count : most;
	else
		stream->claimed += reader->progress[entry->index].found;
	stream->sequence = entry->sequence + 1;
	stream->waits = false;
}

void readout_free(struct reader *reader, uint32_t index, uint64_t word)
{
	struct dt_chunk desc;

	pool_desc(&reader->pool, index, &desc);
	reader->progress[index] =
		(struct reader_progress){ .generation = DT_CHUNK_GENERATION(word) };
	pool_free_chunk(&reader->pool, index, readout_extent(reader, index, word, &desc));
}
