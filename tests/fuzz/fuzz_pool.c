/*
 * fuzz_pool.c - any bytes as the pool's memory, and the reader over them.
 *
 * The memory lies between two pages that can't be touched. The trace is a judge instead of a file:
 * each packet must be one that a CTF reader accepts (known events, complete, in order of time), and
 * the counts must agree.
 *
 * The input: flags, chunk words, descriptors, thread records, the pool's own fields, then pieces of
 * chunks: which one, how far in (words), how many words, those words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <x86intrin.h>

#include "../../src/control/ctf/writer.h"
#include "../../src/control/record/reader.h"

#define SMALL 3u
#define BIG 2u
#define CHUNKS (SMALL + BIG)
#define THREADS 4u
#define TALLIES 5u /* in the input */
/* None with id 2; 4 is of variable size. 6 and 8 are in the pool as pairs with 5 and 7; those of 8
 * vary in size. */
#define TYPES 9u
#define PAIRS_FROM 5u
#define STREAMS 4096u
#define REQUIRE(what) ((what) ? (void)0 : fuzz_fail(__LINE__, #what))

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const uint32_t sizes[TYPES] = { 8, 16, 0, 3072, 16, 16, 24, 16, 24 };
static const uint8_t paddings[TYPES] = { 0, 4 };
static struct event_type types[TYPES];
static uint64_t ends[STREAMS], lost[STREAMS], judged;

static void fuzz_fail(int line, const char *what)
{
	fprintf(stderr, "fuzz_pool.c:%d: not so: %s\n", line, what);
	abort();
}

/* Bytes of an event that is in a packet, without what its alignment adds; 0: it isn't one. */
static size_t measure(const uint64_t *event, size_t words)
{
	uint32_t id = *event & 0xffffff;

	if (id >= TYPES || !sizes[id])
		return 0;
	return types[id].is_variable ? event_measure(&types[id], event, words * 8) :
				       sizes[id] - paddings[id];
}

/* A batch tells how long its events are. */
static void compare_lengths(void *context, const struct reader_batch *batch)
{
	const uint16_t *length = batch->lengths;

	(void)context;
	for (size_t at = 0, words; at < batch->words && length; at += words) {
		const uint64_t *event = batch->events + at;

		words = (measure(event, batch->words - at) + 7) / 8;
		REQUIRE(words && at + words <= batch->words);
		REQUIRE(*length++ == words);
	}
}

/* ---- the judge, in the place of ctf/writer.c ---------------------------------------------- */

struct error *writer_packet(struct trace_writer *writer, uint64_t stream,
			    const struct packet *packet)
{
	const uint64_t *at = packet->events;
	size_t words = packet->size / 8;
	uint64_t clock = packet->begin;
	size_t bytes = 0;

	(void)writer;
	REQUIRE(stream < STREAMS);
	REQUIRE(packet->begin <= packet->end && ends[stream] != UINT64_MAX);
	bool is_late = packet->begin < ends[stream]; /* which only packets of pairs may be */
	REQUIRE(packet->size % 8 == 0 && packet->size <= DT_CHUNK_BIG);
	REQUIRE(packet->lost >= lost[stream]);
	for (size_t i = 0; i < words; i += (bytes + 7) / 8, judged++) {
		bytes = measure(at + i, words - i);
		REQUIRE(bytes && (bytes + 7) / 8 <= words - i);
		REQUIRE(!is_late || (at[i] & 0xffffff) >= PAIRS_FROM);
		uint64_t ahead = ((at[i] >> 24) - clock) & ((1ULL << 40) - 1);
		REQUIRE(ahead < 1ULL << 39);
		REQUIRE(i || !ahead);
		clock += ahead;
	}
	/* the last event of the reading may have been a pair, which is in another packet */
	REQUIRE(clock <= packet->end);
	REQUIRE(packet->padding == -bytes % 8);
	ends[stream] = packet->end;
	lost[stream] = packet->lost;
	return NULL;
}

bool writer_is_bounded(const struct trace_writer *writer)
{
	(void)writer;
	return false;
}

bool writer_is_crowded(const struct trace_writer *writer, uint64_t begin)
{
	(void)writer;
	return begin % 16 == 5;
}

void writer_end_stream(struct trace_writer *writer, uint64_t stream)
{
	(void)writer;
	REQUIRE(stream < STREAMS);
	ends[stream] = UINT64_MAX; /* nothing may come behind it */
}

/* ---- the pool ----------------------------------------------------------------------------- */

struct input {
	const uint8_t *bytes;
	size_t size;
};

static size_t take(struct input *input, void *to, size_t size)
{
	if (size > input->size)
		size = input->size;
	memcpy(to, input->bytes, size);
	input->bytes += size;
	input->size -= size;
	return size;
}

static uint64_t pool_bytes(void)
{
	uint64_t size = dt_chunks_offset(CHUNKS) + SMALL * DT_CHUNK_SMALL + BIG * DT_CHUNK_BIG;

	return DT_ROUND_UP(size, DT_PAGE);
}

static struct dt_pool *pool_memory(void)
{
	static char *memory;

	if (!memory) {
		memory = mmap(NULL, pool_bytes() + 2 * DT_PAGE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		REQUIRE(memory != MAP_FAILED);
		memory += DT_PAGE;
		REQUIRE(!mprotect(memory, pool_bytes(), PROT_READ | PROT_WRITE));
	}
	memset(memory, 0, offsetof(struct dt_pool, tallies) + TYPES * sizeof(struct dt_tally));
	memset(((struct dt_pool *)memory)->threads, 0, THREADS * sizeof(struct dt_thread));
	memset(memory + dt_words_offset(), 0, pool_bytes() - dt_words_offset());
	return (struct dt_pool *)memory;
}

static void place_pieces(struct input *input, struct dt_pool *pool)
{
	uint8_t piece[4];

	while (take(input, piece, sizeof(piece)) == sizeof(piece)) {
		uint32_t index = piece[0] % CHUNKS;
		uint32_t room = dt_chunk_size(SMALL, index) / 8;
		uint32_t at = (piece[1] | (uint32_t)piece[2] << 8) % room;
		uint32_t count = piece[3] % 64;
		char *chunk =
			(char *)pool + dt_chunk_offset(dt_chunks_offset(CHUNKS), SMALL, index);

		take(input, chunk + at * 8, (count < room - at ? count : room - at) * 8);
	}
}

static struct dt_pool *make_pool(struct input *input)
{
	struct dt_pool *pool = pool_memory();
	char *memory = (char *)pool;

	take(input, memory + dt_words_offset(), CHUNKS * sizeof(uint64_t));
	take(input, memory + dt_descs_offset(CHUNKS), CHUNKS * sizeof(struct dt_chunk));
	take(input, pool->threads, THREADS * sizeof(struct dt_thread));
	take(input, memory, offsetof(struct dt_pool, tallies) + TALLIES * sizeof(struct dt_tally));
	place_pieces(input, pool);
	return pool;
}

/* ---- the reader over it ------------------------------------------------------------------- */

static bool alive(void *context, const struct reader_thread *thread)
{
	return (thread->pid ^ thread->tid ^ *(uint8_t *)context) & 1;
}

static void make_types(void)
{
	static struct event_field word = { .name = "w", .size = 4, .offset = 8 };
	static struct event_field last = { .name = "l", .size = 8, .offset = 3064 };
	static struct event_field whole = { .name = "d", .size = 8, .offset = 8 };
	static struct event_field two[] = { { .name = "r", .size = 8, .offset = 8 },
					    { .name = "d", .size = 8, .offset = 16 } };
	static struct event_field any[] = { { .name = "n", .size = 2 },
					    { .name = "s", .type = FIELD_STRING },
					    { .name = "f", .type = FIELD_FRAMES, .size = 8 } };

	for (uint32_t id = 0; id < TYPES; id++)
		types[id] = (struct event_type){ .id = id, .size = sizes[id] };
	types[1].fields = &word;
	types[3].fields = &last;
	types[4].fields = any;
	types[1].field_count = types[3].field_count = 1;
	types[4].field_count = 3;
	types[4].is_variable = true;
	types[5].fields = &whole;
	types[6].fields = two;
	types[5].field_count = 1;
	types[6].field_count = 2;
	types[7].fields = any + 1;
	types[7].field_count = 1;
	types[8].fields = any;
	types[8].field_count = 3;
	types[7].is_variable = types[8].is_variable = true;
	types[6].is_pair = types[8].is_pair = true;
}

static void read_it(struct dt_pool *pool, uint8_t flags)
{
	static char judge; /* only has an address: without a writer the reader writes nothing */
	struct event_types all = { .items = types, .count = TYPES };
	struct reader *reader;
	struct reader_totals totals;
	uint64_t hits = 0;
	size_t chunks;

	make_types();
	struct reader_options options = { .observe = compare_lengths,
					  .pool = pool,
					  .pool_size = pool_bytes(),
					  .small_count = SMALL,
					  .big_count = BIG,
					  .types = &all,
					  .writer = (struct trace_writer *)&judge,
					  .alive = alive,
					  .alive_context = &flags };
	REQUIRE(!reader_create(&options, &reader));
	if (flags & 2)
		REQUIRE(!reader_drain(reader, &chunks));
	if (flags & 4)
		REQUIRE(!reader_flush(reader));
	if (flags & 8)
		REQUIRE(!reader_reap(reader));
	if (flags & 16)
		REQUIRE(!reader_flush(reader));
	REQUIRE(!reader_finish(reader, &totals));
	for (uint32_t id = 0; id < TYPES; id++)
		hits += types[id].hits;
	REQUIRE(hits == judged && totals.events == judged);
	reader_destroy(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input input = { bytes, size };
	uint8_t flags = 0;

	memset(ends, 0, sizeof(ends));
	memset(lost, 0, sizeof(lost));
	judged = 0;
	take(&input, &flags, 1);
	read_it(make_pool(&input), flags);
	return 0;
}
