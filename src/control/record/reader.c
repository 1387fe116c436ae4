/*
 * reader.c - decide when which chunks are read, parked and freed.
 *
 * A scan looks at all chunk words and lists the readable chunks; the reader takes them by thread
 * and in the order of their sequence numbers. Three things can keep a thread's chunks waiting:
 *
 *  - A number is missing. The scan passed that chunk's word before it was published, and saw the
 *    next chunk's afterwards: the next scan sees both. If the number is missing twice, the chunk
 *    doesn't exist, and the reader goes on.
 *  - An event isn't complete: a signal handler interrupted its hit, hit too, and filled the chunk.
 *    The chunk is read up to there and then waits, with the later ones, until the hit goes on, its
 *    thread is dead, or READER_PATIENCE chunks are waiting. Then it is read around the hole. As the
 *    hit may still go on and write there, the chunk is parked: it is freed only when the hole is
 *    filled, or when READER_FORGET later chunks show that it never will be (siglongjmp).
 *  - Its owner still writes it. Then only a flush reads it, up to the first incomplete event.
 *
 * struct reader_progress keeps how far a chunk has been read, per generation.
 *
 * (V2) Only the reader makes a chunk FREE, so a chunk keeps its generation from its first reading
 *      to its last.
 * (V6) A buffer of reader_totals.buffer_needed bytes would have held all events of fixed size: at
 *      no time do more events wait to be read than are in the pool, and were lost. Of events of
 *      variable size the mean counts. Each thread that lost events has a chunk more there.
 */
#include "reader.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#include "control/base/now.h"
#include "control/ctf/writer.h"
#include "open_calls.h"
#include "reader_state.h"
#include "walk.h"

#define READER_PATIENCE 4
#define READER_FORGET 64
#define READER_ROUNDS 4

/* The purpose of a scan decides which chunks it lists besides the published ones. */
enum reader_purpose {
	READER_DRAIN,
	READER_FLUSH, /* chunks that their owners still write */
	READER_REAP, /* chunks of dead threads; takes them */
	READER_FINISH, /* all; takes them */
};

/* ---- life --------------------------------------------------------------------------------- */

void reader_set_writer(struct reader *reader, struct trace_writer *writer)
{
	reader->sink.writer = writer;
}

void reader_destroy(struct reader *reader)
{
	if (!reader)
		return;
	vec_free(&reader->entries);
	free(reader->progress);
	for (size_t i = 0; i < DT_THREADS_MAX && reader->streams; i++)
		nesting_free(reader->streams[i].nesting);
	free(reader->streams);
	free(reader->sizes);
	free(reader->hits);
	free(reader->unwritten);
	free(reader->tallied);
	error_free(reader->sink.failure);
	free(reader->padding);
	free(reader->buffer);
	free(reader->lengths);
	readahead_free(&reader->ahead);
	pairs_free(reader->pairs);
	open_calls_forget(reader, NULL);
	vec_free(&reader->open_calls.calls);
	free(reader->open_calls.heads);
	free(reader);
}

struct error *reader_create(const struct reader_options *options, struct reader **ret_reader)
{
	struct reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return error_new(ERROR_FAILED, "out of memory");
	assert(options->pool && options->types);
	reader->options = *options;
	if (!reader->options.since)
		reader->options.since = now_ns();
	reader->losses.since = reader->sink.losses.since = reader->options.since;
	reader->sink.writer = options->writer;
	reader->sink.name = options->name;
	reader->sink.name_context = options->name_context;
	reader->unfinished = UINT64_MAX;
	reader->sink.totals = &reader->totals;
	if (!pool_view(options->pool, options->pool_size, options->small_count, options->big_count,
		       &reader->pool)) {
		reader_destroy(reader);
		return error_new(ERROR_FAILED, "the pool is too small for its chunks");
	}
	reader->progress = calloc(reader->pool.chunk_count, sizeof(*reader->progress));
	reader->streams = calloc(DT_THREADS_MAX, sizeof(*reader->streams));
	reader->sizes = calloc(DT_EVENTS_MAX, sizeof(*reader->sizes));
	reader->hits = calloc(DT_EVENTS_MAX, sizeof(*reader->hits));
	reader->unwritten = calloc(DT_EVENTS_MAX, sizeof(*reader->unwritten));
	reader->tallied = calloc(DT_EVENTS_MAX, sizeof(*reader->tallied));
	reader->padding = calloc(DT_EVENTS_MAX, sizeof(*reader->padding));
	reader->room = DT_CHUNK_BIG;
	reader->buffer = malloc(reader->room);
	reader->lengths = malloc(READAHEAD_LENGTHS * sizeof(*reader->lengths));
	if (!reader->progress || !reader->streams || !reader->sizes || !reader->hits ||
	    !reader->unwritten || !reader->tallied || !reader->padding || !reader->buffer ||
	    !reader->lengths || !vec_reserve(&reader->entries, reader->pool.chunk_count)) {
		reader_destroy(reader);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_reader = reader;
	return NULL;
}

void reader_wait(struct reader *reader, unsigned timeout_ms)
{
	struct timespec timeout = { .tv_sec = timeout_ms / 1000,
				    .tv_nsec = (long)(timeout_ms % 1000) * 1000000 };

	pool_wait(reader->pool.base, reader->wake_seen, &timeout);
}

uint64_t reader_now(const struct reader *reader)
{
	return reader->options.clock ? reader->options.clock() : __rdtsc();
}

uint32_t reader_seen(const struct reader *reader)
{
	return reader->wake_seen;
}

uint64_t reader_unfinished(struct reader *reader)
{
	uint64_t clock = reader->unfinished;

	reader->unfinished = UINT64_MAX;
	return clock;
}

uint64_t reader_events(const struct reader *reader)
{
	return reader->totals.events;
}

/* ---- choice of chunks --------------------------------------------------------------------- */

static bool reader_chunk_is_blank(const struct reader *reader, uint32_t index)
{
	const uint64_t *words = pool_chunk(&reader->pool, index);

	for (uint32_t i = 0; i < pool_chunk_size(&reader->pool, index) / 8; i++) {
		if (__atomic_load_n(words + i, __ATOMIC_ACQUIRE))
			return false;
	}
	return true;
}

/* For a chunk that was read around a hole: has the hit filled the hole, or is it given up? */
static bool reader_hole_is_closed(const struct reader *reader, uint32_t index, uint32_t thread)
{
	const struct reader_progress *progress = &reader->progress[index];
	const struct stream *stream = &reader->streams[thread];
	const uint64_t *hole = (uint64_t *)pool_chunk(&reader->pool, index) + progress->hole / 8;
	uint64_t header = __atomic_load_n(hole, __ATOMIC_ACQUIRE);

	return (header && !(header & DT_EVENT_PENDING)) || stream->dead || !stream->open ||
	       stream->sequence - progress->sequence > READER_FORGET;
}

/* Takes an OWNED or CLOSING chunk: its word becomes TAKEN (B1). False: its owner was faster, or the
 * chunk is blank. */
static bool reader_take(struct reader *reader, uint32_t index, uint64_t *word)
{
	uint64_t taken = DT_CHUNK_WORD(DT_CHUNK_GENERATION(*word), DT_CHUNK_THREAD(*word),
				       DT_CHUNK_TAKEN);

	if (!__atomic_compare_exchange_n(&reader->pool.words[index], word, taken, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	*word = taken;
	if (!reader_chunk_is_blank(reader, index))
		return true;
	readout_free(reader, index, taken); /* its owner died before it filled in the descriptor */
	return false;
}

/* Shall this chunk be read now? May take it, or free it. */
static bool reader_wants(struct reader *reader, enum reader_purpose purpose, uint32_t index,
			 uint32_t thread, uint64_t *word)
{
	bool dead = reader->streams[thread].dead;

	switch (DT_CHUNK_STATE(*word)) {
	case DT_CHUNK_PUBLISHED:
		if (!readout_progress(reader, index, *word)->parked)
			return true;
		if (purpose == READER_FINISH || reader_hole_is_closed(reader, index, thread))
			readout_free(reader, index, *word);
		return false;
	case DT_CHUNK_OWNED:
		if (purpose == READER_FLUSH) /* the descriptor precedes the first event */
			return __atomic_load_n((uint64_t *)pool_chunk(&reader->pool, index),
					       __ATOMIC_ACQUIRE);
		return (purpose == READER_FINISH || (purpose == READER_REAP && dead)) &&
		       reader_take(reader, index, word);
	case DT_CHUNK_CLOSING:
		return purpose == READER_FINISH && reader_take(reader, index, word);
	case DT_CHUNK_TAKEN:
		return purpose == READER_FINISH || purpose == READER_REAP;
	default:
		return false;
	}
}

static int reader_compare(const void *left, const void *right)
{
	const struct reader_entry *a = left, *b = right;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	int32_t apart = (int32_t)(a->sequence - b->sequence);
	return apart ? (apart < 0 ? -1 : 1) : a->index < b->index ? -1 : a->index > b->index;
}

static void reader_scan(struct reader *reader, enum reader_purpose purpose)
{
	struct dt_chunk desc;

	reader->entries.count = 0;
	for (uint32_t index = 0; index < reader->pool.chunk_count; index++) {
		uint64_t word = pool_word(&reader->pool, index);
		uint32_t thread = DT_CHUNK_THREAD(word);

		if (thread >= DT_THREADS_MAX)
			thread = 0;
		if (DT_CHUNK_STATE(word) == DT_CHUNK_FREE ||
		    !reader_wants(reader, purpose, index, thread, &word))
			continue;
		pool_desc(&reader->pool, index, &desc);
		assert(reader->entries.count < reader->entries.room);
		reader->entries.items[reader->entries.count++] =
			(struct reader_entry){ index, thread, desc.sequence, word };
	}
	if (reader->entries.count)
		qsort(reader->entries.items, reader->entries.count, sizeof(*reader->entries.items),
		      reader_compare);
}

/* ---- order of chunks ---------------------------------------------------------------------- */

/* Is this the chunk that comes next? Gives up a predecessor that is missing for the second time. */
static bool reader_is_next(struct stream *stream, uint32_t sequence)
{
	if ((int32_t)(sequence - stream->sequence) <= 0)
		return true;
	if (stream->waits && stream->waiting_for == stream->sequence)
		return true;
	stream->waits = true;
	stream->waiting_for = stream->sequence;
	return false;
}

/* Reads the chunks of one thread. *ret_gap: one is missing that the next scan may find. */
static struct error *reader_read_thread(struct reader *reader, enum reader_purpose purpose,
					const struct reader_entry *entries, size_t count,
					size_t *ret_chunks, bool *ret_gap)
{
	struct stream *stream = readout_stream(reader, entries->thread);
	bool final = purpose == READER_FINISH || stream->dead;

	assert(count);
	for (size_t i = 0; i < count; i++) {
		const struct reader_entry *entry = &entries[i];
		bool owned = DT_CHUNK_STATE(entry->word) == DT_CHUNK_OWNED;
		enum readout_result result;

		/* At the end no thread publishes any more: missing chunks were overwritten. */
		if (purpose != READER_FINISH && !reader_is_next(stream, entry->sequence)) {
			*ret_gap = true;
			return NULL;
		}
		bool force = !owned && (final || count - i > READER_PATIENCE);
		struct error *error = readout_chunk(reader, entry, force, &result);
		if (error)
			return error;
		if (owned || result == READOUT_WAITS)
			return NULL;
		assert(reader->progress[entry->index].generation ==
		       DT_CHUNK_GENERATION(entry->word)); /* V2 */
		readout_account(reader, entry);
		(*ret_chunks)++;
		reader->progress[entry->index].sequence = entry->sequence;
		reader->progress[entry->index].parked = true;
		if (result == READOUT_DONE || final ||
		    reader_hole_is_closed(reader, entry->index, entry->thread))
			readahead_free_chunk(reader, entry);
	}
	return NULL;
}

static struct error *reader_round(struct reader *reader, enum reader_purpose purpose,
				  size_t *ret_chunks, bool *ret_gap)
{
	struct error *error = NULL;

	*ret_gap = false;
	reader_scan(reader, purpose);
	readahead_judge(reader);
	for (size_t i = 0, next; !error && i < reader->entries.count; i = next) {
		const struct reader_entry *first = &reader->entries.items[i];

		for (next = i; next < reader->entries.count &&
			       reader->entries.items[next].thread == first->thread;)
			next++;
		error = reader_read_thread(reader, purpose, first, next - i, ret_chunks, ret_gap);
	}
	readahead_end(reader);
	return error;
}

static struct error *reader_run(struct reader *reader, enum reader_purpose purpose,
				size_t *ret_chunks)
{
	struct error *error = readout_learn_types(reader);
	size_t chunks = 0;
	bool gap = true;

	reader->wake_seen = __atomic_load_n(&reader->pool.base->wake, __ATOMIC_SEQ_CST);
	for (int round = 0; !error && gap && round < READER_ROUNDS; round++)
		error = reader_round(reader, purpose, &chunks, &gap);
	pool_tell_room(&reader->pool);
	readout_tell_types(reader);
	if (ret_chunks && !error)
		*ret_chunks = chunks;
	return error;
}

struct error *reader_drain(struct reader *reader, size_t *ret_chunks)
{
	return reader_run(reader, READER_DRAIN, ret_chunks);
}

struct error *reader_flush(struct reader *reader)
{
	return reader_run(reader, READER_FLUSH, NULL);
}

/* ---- ends of threads ---------------------------------------------------------------------- */

void reader_find_dead(struct reader *reader)
{
	for (uint32_t thread = 1; thread < DT_THREADS_MAX; thread++) {
		const struct dt_thread *record = &reader->pool.base->threads[thread];

		if (__atomic_load_n(&record->claim, __ATOMIC_ACQUIRE) != 2)
			continue;
		struct stream *stream = readout_stream(reader, thread);
		struct reader_thread who = { stream->pid, stream->tid, stream->outer_pid,
					     stream->outer_tid, record->start,
					     record->program, stream->process };
		if (!stream->dead && reader->options.alive)
			stream->dead = !reader->options.alive(reader->options.alive_context, &who);
	}
}

/* Marks the streams of threads that have chunks. */
static void reader_find_busy(struct reader *reader)
{
	for (uint32_t thread = 0; thread < DT_THREADS_MAX; thread++)
		reader->streams[thread].busy = false;
	for (uint32_t index = 0; index < reader->pool.chunk_count; index++) {
		uint64_t word = pool_word(&reader->pool, index);
		uint32_t thread = DT_CHUNK_THREAD(word);

		if (DT_CHUNK_STATE(word) != DT_CHUNK_FREE && thread < DT_THREADS_MAX)
			reader->streams[thread].busy = true;
	}
}

/* Reports the rest of a thread's losses, and ends its stream. */
static struct error *reader_end_thread(struct reader *reader, uint32_t thread)
{
	struct stream *stream = readout_stream(reader, thread);
	struct dt_thread record;

	pool_thread(&reader->pool, thread, &record);
	stream_note_lost(stream, &reader->sink, record.lost);
	reader->lossy += stream->lost != 0;
	return stream_finish(stream, &reader->sink, reader_now(reader));
}

bool reader_is_short(const struct reader *reader)
{
	int32_t left = __atomic_load_n(&reader->pool.base->small_free, __ATOMIC_RELAXED);

	return left < (int32_t)reader->pool.small_count / 2;
}

struct error *reader_end_dead(struct reader *reader)
{
	struct error *error = NULL;

	reader_find_busy(reader);
	for (uint32_t thread = 1; !error && thread < DT_THREADS_MAX; thread++) {
		const struct stream *stream = &reader->streams[thread];

		if (!stream->open || !stream->dead || stream->busy)
			continue;
		error = reader_end_thread(reader, thread);
		if (!error)
			pool_free_thread(&reader->pool, thread);
	}
	return error;
}

struct error *reader_reap(struct reader *reader)
{
	reader_find_dead(reader);
	struct error *error = reader_run(reader, READER_REAP, NULL);

	return error ? error : reader_end_dead(reader);
}

/* Reports the lost hits of threads without a record in a stream of their own, of no thread. */
static struct error *reader_end_homeless(struct reader *reader)
{
	const struct dt_thread nobody = { 0 };
	struct stream stream;

	stream_open(&stream, &reader->sink, &nobody, &(struct reader_options){ 0 });
	stream_note_lost(&stream, &reader->sink,
			 __atomic_load_n(&reader->pool.base->lost_homeless, __ATOMIC_RELAXED));
	return stream_finish(&stream, &reader->sink, reader_now(reader));
}

/* (V6) Chunks are never quite full: half of the memory is in small ones, half of which a large
 * event may waste. A thread that lost events may have had no chunk at all, as others kept theirs,
 * and threads that have few events to record may take big chunks. Half is added, as the next run
 * won't be quite the same: under the same load redis lacked room in five runs of eight, which
 * needed about 75 to 111 MiB. */
static uint64_t reader_needed_buffer(const struct reader *reader)
{
	const struct reader_totals *totals = &reader->totals;
	uint64_t mean = totals->events ? totals->bytes / totals->events + 8 : 0, bytes = 0;
	uint64_t small = reader->pool.small_count, big = reader->pool.chunk_count - small;
	uint64_t now = small * DT_CHUNK_SMALL + big * DT_CHUNK_BIG;

	for (size_t id = 0; id < reader->type_count; id++) {
		uint64_t size = reader->sizes[id] & WALK_VARIABLE ? mean : reader->sizes[id];

		bytes += reader->tallied[id] * size;
	}
	if (!bytes)
		return 0;
	bytes += bytes / 3 + reader->lossy * 2 * DT_CHUNK_SMALL;
	uint64_t idle = (uint64_t)reader->lossy * DT_CHUNK_BIG;
	uint64_t needed = now + bytes + (idle < bytes ? idle : bytes) + DT_CHUNK_BIG;
	if (needed < DT_POOL_MAX && needed + needed / 2 > DT_POOL_MAX)
		return DT_POOL_MAX;
	return needed + needed / 2;
}

void reader_close_trace(struct reader *reader)
{
	reader->sink.is_closed = true;
}

void reader_give_up(struct reader *reader)
{
	reader->sink.gives_up = true;
}

struct error *reader_finish(struct reader *reader, struct reader_totals *ret_totals)
{
	reader_give_up(reader);
	struct error *error = reader_run(reader, READER_FINISH, NULL);

	if (!error)
		error = open_calls_write(reader);
	for (uint32_t thread = 0; !error && thread < DT_THREADS_MAX; thread++) {
		const struct dt_thread *record = &reader->pool.base->threads[thread];

		if (reader->streams[thread].open ||
		    (thread && __atomic_load_n(&record->lost, __ATOMIC_RELAXED)))
			error = reader_end_thread(reader, thread);
	}
	if (!error)
		error = reader_end_homeless(reader);
	readout_tell_types(reader);
	struct losses overwritten = { .since = reader->options.since };
	reader->totals.overwritten =
		losses_believe(&overwritten, 0,
			       __atomic_load_n(&reader->pool.base->overwritten, __ATOMIC_RELAXED));
	/* others were lost for want of a thread's record, or of a clock */
	if (!__atomic_load_n(&reader->pool.base->lost_homeless, __ATOMIC_RELAXED) &&
	    !__atomic_load_n(&reader->pool.base->clockless, __ATOMIC_RELAXED))
		reader->totals.buffer_needed = reader_needed_buffer(reader);
	reader->totals.damaged = reader->sink.losses.damaged || reader->losses.damaged ||
				 overwritten.damaged;
	*ret_totals = reader->totals;
	if (!error) {
		error = reader->sink.failure;
		reader->sink.failure = NULL;
	}
	return error;
}
