/*
 * flight.c - the flight recorder (B9): the pool is a ring that the controller doesn't empty, and a
 * snapshot is a copy of it.
 *
 * A snapshot copies chunk by chunk into memory of its own, which is then read as any pool at its
 * end. It reads a chunk's word before and after the copy: if the generation differs, a thread took
 * the chunk meanwhile, and it is left out. Of a chunk that its owner still writes, the events up to
 * the first incomplete one count.
 *
 * (V1) A chunk of a living thread is never written by the controller.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"
#include "reader_state.h"
#include "walk.h"

/* A hole is never filled any more once its thread has taken so many later chunks. */
#define FLIGHT_FORGET 64

/* Measures the chunk up to its first incomplete event: sets used, count and end of `desc`. */
static void flight_measure(struct reader *reader, const struct pool *pool, uint32_t index,
			   uint32_t extent, struct dt_chunk *desc)
{
	struct walk walk = {
		.sizes = reader->sizes,
		.types = reader->options.types,
		.hits = reader->hits,
		.id_count = (uint32_t)reader->type_count,
		.from = pool_chunk(pool, index),
		.to = reader->buffer,
		.words = extent / 8,
		.clock = desc->begin,
	};

	walk_events(&walk);
	walk_uncount(&walk, reader->buffer, walk.count);
	desc->used = extent - (uint32_t)walk.words * 8;
	desc->count = (uint32_t)walk.count;
	desc->end = walk.clock;
}

/* ---- tidying ------------------------------------------------------------------------------ */

/* Publishes the chunk of a dead thread, so that other threads can take it. */
static void flight_publish(struct reader *reader, uint32_t index, uint64_t word)
{
	uint32_t generation = DT_CHUNK_GENERATION(word), thread = DT_CHUNK_THREAD(word);
	uint64_t taken = DT_CHUNK_WORD(generation, thread, DT_CHUNK_TAKEN);
	struct dt_chunk desc;

	assert(reader->streams[thread].dead); /* V1 */
	if (!__atomic_compare_exchange_n(&reader->pool.words[index], &word, taken, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	pool_desc(&reader->pool, index, &desc);
	flight_measure(reader, &reader->pool, index, pool_chunk_size(&reader->pool, index), &desc);
	if (!desc.count) {
		pool_free_chunk(&reader->pool, index, pool_chunk_size(&reader->pool, index));
		return;
	}
	struct dt_chunk *shared = &reader->pool.descs[index];
	shared->used = desc.used;
	shared->count = desc.count;
	shared->end = desc.end;
	__atomic_store_n(&reader->pool.words[index],
			 DT_CHUNK_WORD(generation, thread, DT_CHUNK_PUBLISHED), __ATOMIC_RELEASE);
}

/* Frees a published chunk with a hole, if its thread is dead or far ahead: threads that look for
 * room skip it. */
static void flight_close_hole(struct reader *reader, uint32_t index, uint64_t word)
{
	const struct stream *stream = &reader->streams[DT_CHUNK_THREAD(word)];
	struct dt_thread record;
	struct dt_chunk desc, found;

	pool_desc(&reader->pool, index, &desc);
	pool_thread(&reader->pool, DT_CHUNK_THREAD(word), &record);
	if (!stream->dead && record.chunks - desc.sequence <= FLIGHT_FORGET)
		return;
	uint32_t size = pool_chunk_size(&reader->pool, index);
	uint32_t extent = (desc.used < size ? desc.used : size) & ~7u;
	found = desc;
	flight_measure(reader, &reader->pool, index, extent, &found);
	if (found.used == extent)
		return;
	uint64_t taken =
		DT_CHUNK_WORD(DT_CHUNK_GENERATION(word), DT_CHUNK_THREAD(word), DT_CHUNK_TAKEN);
	if (!__atomic_compare_exchange_n(&reader->pool.words[index], &word, taken, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	__atomic_fetch_add(&reader->pool.base->overwritten, desc.count, __ATOMIC_RELAXED);
	pool_free_chunk(&reader->pool, index, size);
}

static void flight_tidy_chunk(struct reader *reader, uint32_t index)
{
	uint64_t word = pool_word(&reader->pool, index);
	uint32_t thread = DT_CHUNK_THREAD(word);

	if (thread >= DT_THREADS_MAX)
		return;
	switch (DT_CHUNK_STATE(word)) {
	case DT_CHUNK_OWNED:
		if (reader->streams[thread].dead)
			flight_publish(reader, index, word);
		break;
	case DT_CHUNK_WIPING: /* its new owner has written nothing yet */
		if (reader->streams[thread].dead)
			pool_free_chunk(&reader->pool, index,
					pool_chunk_size(&reader->pool, index));
		break;
	case DT_CHUNK_PUBLISHED:
		flight_close_hole(reader, index, word);
		break;
	default:
		break;
	}
}

struct error *reader_tidy(struct reader *reader)
{
	struct error *error = readout_learn_types(reader);

	reader_find_dead(reader);
	for (uint32_t index = 0; !error && index < reader->pool.chunk_count; index++)
		flight_tidy_chunk(reader, index);
	return error ? error : reader_end_dead(reader);
}

/* ---- snapshots ---------------------------------------------------------------------------- */

static void flight_copy(void *to, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *)to)[i] = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_RELAXED);
}

/* Copies one chunk into the other pool, whole or not at all. */
static void flight_copy_chunk(struct reader *reader, const struct pool *from, const struct pool *to,
			      uint32_t index)
{
	uint64_t before = pool_word(from, index);
	uint32_t state = DT_CHUNK_STATE(before), size = pool_chunk_size(from, index);

	if (state != DT_CHUNK_OWNED && state != DT_CHUNK_PUBLISHED)
		return;
	/* Its owner fills in the descriptor before the first event. */
	if (!__atomic_load_n((const uint64_t *)pool_chunk(from, index), __ATOMIC_ACQUIRE))
		return;
	pool_desc(from, index, &to->descs[index]);
	/* Upwards: an event's header is copied before its payload, so an event with a complete
	 * header is complete in the copy. */
	flight_copy(pool_chunk(to, index), pool_chunk(from, index), size);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (DT_CHUNK_GENERATION(pool_word(from, index)) != DT_CHUNK_GENERATION(before))
		return;
	if (state == DT_CHUNK_OWNED)
		flight_measure(reader, to, index, size, &to->descs[index]);
	to->words[index] = DT_CHUNK_WORD(DT_CHUNK_GENERATION(before), DT_CHUNK_THREAD(before),
					 DT_CHUNK_PUBLISHED);
}

/* The newest first: threads overwrite the oldest meanwhile (B9). */
static void flight_copy_ring(struct reader *copy, const struct pool *from, uint32_t first,
			     uint32_t count, const uint32_t *hint)
{
	uint32_t at = count ? __atomic_load_n(hint, __ATOMIC_RELAXED) % count : 0;

	for (uint32_t i = 0; i < count; i++) {
		at = at ? at - 1 : count - 1;
		if (!copy->pool.words[first + at])
			flight_copy_chunk(copy, from, &copy->pool, first + at);
	}
}

/*
 * Of each thread the copy has its last events before the copy began, without a gap. So chunks
 * that threads own now come first, then the others in the order in which they will be overwritten,
 * backwards; and no event that was recorded since.
 */
static void flight_copy_chunks(struct reader *copy, const struct pool *from)
{
	copy->options.until = reader_now(copy);
	for (uint32_t index = 0; index < from->chunk_count; index++) {
		if (DT_CHUNK_STATE(pool_word(from, index)) == DT_CHUNK_OWNED)
			flight_copy_chunk(copy, from, &copy->pool, index);
	}
	flight_copy_ring(copy, from, 0, from->small_count, &from->base->small_hint);
	flight_copy_ring(copy, from, from->small_count, from->chunk_count - from->small_count,
			 &from->base->big_hint);
}

static struct error *flight_read_copy(struct reader *copy, struct reader_totals *ret_totals)
{
	const struct pool *from = &copy->source;
	struct error *error = readout_learn_types(copy);

	if (error)
		return error;
	flight_copy(copy->pool.base->tallies, from->base->tallies,
		    copy->options.types->count * sizeof(struct dt_tally));
	flight_copy(copy->pool.base->threads, from->base->threads, sizeof(from->base->threads));
	copy->pool.base->lost_homeless = from->base->lost_homeless;
	flight_copy_chunks(copy, from);
	return reader_finish(copy, ret_totals);
}

struct error *reader_snapshot(const struct reader *reader, struct trace_writer *writer,
			      struct event_types *types, uint64_t from,
			      struct reader_totals *ret_totals)
{
	struct reader_options options = reader->options;
	struct reader *copy = NULL;
	void *memory = mmap(NULL, options.pool_size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return error_new(ERROR_FAILED, "out of memory");
	options.pool = memory;
	options.writer = writer;
	options.types = types;
	options.from = from;
	options.alive = NULL;
	options.observe = NULL;
	struct error *error = reader_create(&options, &copy);
	if (!error) {
		copy->source = reader->pool;
		error = flight_read_copy(copy, ret_totals);
	}
	reader_destroy(copy);
	munmap(memory, options.pool_size);
	return error;
}
