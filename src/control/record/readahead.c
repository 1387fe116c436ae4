/*
 * readahead.c
 *
 * Most of a reader's time is in pwritev. So while the reader can't keep up, a second thread writes
 * a packet (ctf/writer_hand.h). Meanwhile the reader's own thread frees the chunks of the packet
 * before, and copies those of the next one. Such a copy changes nothing but the hits, which `drop`
 * takes back: no chunk is noted as read, and no stream goes on, before the packet in front of it
 * has been written. All else happens in the reader's thread, and in the same order as without a
 * second one: lanes, rotation, losses, counts, observers, and what is done if a write fails.
 *
 * (V8) A copy is used for the chunk, the place in it and the clock for which it was made, and used
 *      once; one that isn't used is taken back.
 */
#include "readahead.h"

#include <assert.h>
#include <stdlib.h>

#include "control/ctf/writer.h"
#include "reader_state.h"

#define READAHEAD_SHARE 4 /* a reader is behind when this part of the buffer waits */
#define READAHEAD_WAITS (128u << 10) /* bytes that are worth a thread */
#define READAHEAD_LEAST (32u << 10) /* bytes of a packet that is worth two system calls more */
#define READAHEAD_PART 32 /* of the buffer: no more is kept for one packet */

/* ---- when ----------------------------------------------------------------------------------- */

/* Makes the buffer as long as the longest packet, once. */
static bool has_long_buffer(struct reader *reader)
{
	struct readahead *ahead = &reader->ahead;
	if (ahead->is_long)
		return true;
	uint64_t *longer = realloc(reader->buffer, READAHEAD_ROOM);
	if (!longer)
		return false;
	reader->buffer = longer;
	ahead->is_long = true;
	return true;
}

/* Makes the second thread, once. */
static bool has_hand(struct reader *reader)
{
	struct readahead *ahead = &reader->ahead;

	if (ahead->aside.hand || ahead->is_refused)
		return ahead->aside.hand;
	ahead->is_refused = true;
	if (!writer_hand_helps() || !has_long_buffer(reader))
		return false;
	ahead->buffer = malloc(READAHEAD_ROOM);
	ahead->lengths = malloc(READAHEAD_LENGTHS * sizeof(*ahead->lengths));
	if (ahead->buffer && ahead->lengths)
		ahead->aside.hand = writer_hand_create();
	return ahead->aside.hand;
}

/* Bytes of a packet: several chunks if so much waits. Fewer where a packet must not be large:
 * pairs.c sorts one chunk, and the limit of a trace's size may be small. */
static size_t room_of(struct reader *reader, uint64_t waits, uint64_t pool_bytes)
{
	uint64_t room = pool_bytes / READAHEAD_PART;

	if (waits <= DT_CHUNK_BIG || reader->has_pairs || room < DT_CHUNK_BIG ||
	    !reader->sink.writer || writer_is_bounded(reader->sink.writer) ||
	    !has_long_buffer(reader))
		return DT_CHUNK_BIG;
	return room < READAHEAD_ROOM ? room & ~7ull : READAHEAD_ROOM;
}

void readahead_judge(struct reader *reader)
{
	const struct pool *pool = &reader->pool;
	uint64_t waits = 0, all = (uint64_t)pool->small_count * DT_CHUNK_SMALL +
				  (uint64_t)(pool->chunk_count - pool->small_count) * DT_CHUNK_BIG;

	for (size_t i = 0; i < reader->entries.count; i++) {
		const struct reader_entry *entry = &reader->entries.items[i];

		if (DT_CHUNK_STATE(entry->word) == DT_CHUNK_PUBLISHED)
			waits += pool_chunk_size(pool, entry->index);
	}
	reader->ahead.is_behind = reader->sink.writer && waits >= READAHEAD_WAITS &&
				  waits > all / READAHEAD_SHARE && has_hand(reader);
	reader->room = room_of(reader, waits, all);
}

/* ---- chunks that can be freed --------------------------------------------------------------- */

void readahead_free_chunk(struct reader *reader, const struct reader_entry *entry)
{
	if (!reader->ahead.is_behind || !vec_push(&reader->ahead.unfreed, *entry))
		readout_free(reader, entry->index, entry->word);
}

static void free_chunks(struct reader *reader)
{
	struct readahead *ahead = &reader->ahead;

	for (size_t i = 0; i < ahead->unfreed.count; i++)
		readout_free(reader, ahead->unfreed.items[i].index, ahead->unfreed.items[i].word);
	ahead->unfreed.count = 0;
}

/* ---- the copy ------------------------------------------------------------------------------- */

/* The clock from which the chunk's stream will go on, once the packet is written; 0: the stream
 * isn't open, or starts anew. */
static uint64_t clock_of(const struct reader *reader, const struct reader_entry *entry,
			 uint64_t begin)
{
	const struct readahead *ahead = &reader->ahead;
	const struct stream *stream = &reader->streams[entry->thread];
	uint64_t end = entry->thread == ahead->thread ? ahead->end : stream->end;

	if (!stream->open || (begin < end && end - begin > STREAM_SKEW))
		return 0;
	return begin < end ? end : begin;
}

static void drop(struct reader *reader)
{
	struct readahead *ahead = &reader->ahead;

	if (ahead->copied)
		walk_uncount(&ahead->walk, ahead->buffer, ahead->walk.count); /* V3 */
	ahead->copied = NULL;
}

/* writer_aside.meanwhile */
static void copy_next(void *context)
{
	struct reader *reader = context;
	struct readahead *ahead = &reader->ahead;
	const struct reader_entry *entry = ahead->next;
	struct dt_chunk desc;

	free_chunks(reader);
	drop(reader);
	if (!readout_is_untouched(reader, entry))
		return;
	pool_desc(&reader->pool, entry->index, &desc);
	uint64_t now = reader_now(reader);
	uint64_t clock = clock_of(reader, entry, desc.begin < now ? desc.begin : now);
	if (!clock)
		return;
	ahead->walk = (struct walk){ .to = ahead->buffer, .lengths = ahead->lengths };
	readout_begin(reader, entry, &desc, clock, &ahead->walk);
	ahead->before = ahead->walk;
	ahead->lost = desc.lost;
	ahead->joined = readout_copy(reader, entry, desc.lost, ahead->buffer, &ahead->walk);
	ahead->copied = entry;
}

const struct writer_aside *readahead_aside(struct reader *reader, const struct reader_entry *next,
					   uint64_t end, size_t size)
{
	struct readahead *ahead = &reader->ahead;

	if (!ahead->is_behind || size < READAHEAD_LEAST ||
	    next == reader->entries.items + reader->entries.count) {
		free_chunks(reader);
		return NULL;
	}
	ahead->next = next;
	ahead->thread = next[-1].thread;
	ahead->end = end;
	ahead->aside.meanwhile = copy_next;
	ahead->aside.context = reader;
	return &ahead->aside;
}

bool readahead_take(struct reader *reader, const struct reader_entry *entry, uint64_t lost,
		    struct walk *walk, size_t *ret_joined)
{
	struct readahead *ahead = &reader->ahead;
	uint64_t *buffer = reader->buffer;
	uint16_t *lengths = reader->lengths;

	if (ahead->copied != entry || ahead->lost != lost || ahead->before.from != walk->from ||
	    ahead->before.words != walk->words || ahead->before.clock != walk->clock)
		return false; /* V8 */
	assert(walk->to == reader->buffer);
	*walk = ahead->walk;
	*ret_joined = ahead->joined;
	ahead->copied = NULL;
	reader->buffer = ahead->buffer;
	reader->lengths = ahead->lengths;
	ahead->buffer = buffer;
	ahead->lengths = lengths;
	return true;
}

void readahead_end(struct reader *reader)
{
	drop(reader);
	free_chunks(reader);
}

void readahead_free(struct readahead *ahead)
{
	writer_hand_free(ahead->aside.hand);
	vec_free(&ahead->unfreed);
	free(ahead->buffer);
	free(ahead->lengths);
}
