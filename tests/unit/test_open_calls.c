/*
 * Calls that are noted while they are inside (open_calls.h): a pair that is read afterwards takes
 * its call away, and no other; at the end the rest have an entry, or are lost and counted. And
 * pairs of which the trace takes a part.
 */
#include "control/record/open_calls.h"
#include "control/record/reader_state.h"
#include "rig.h"

#define ENTRY RIG_BARE
#define EXIT RIG_TWO
#define CALLS 3000
#define PAIR_WORDS 4u
#define START ((3ULL << 40) + 12345)
#define FEW 5
#define LONG_AGO (1ULL << 40) /* before a call's exit: its entry has a packet of its own (B6) */

static uint64_t now;
static bool no_memory; /* for the fields of a call */
static bool no_table; /* no memory for the table of calls */
static const char ours, others; /* have an address only */

/* The linker leads calls of the controller here, and those of the name with `real` to calloc. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	bool fails = (no_memory && count == 1 && size == 8) ||
		     (no_table && count == OPEN_CALLS_HEADS);

	return fails ? NULL : __real_calloc(count, size);
}

bool __real_vec_grow(void **items, size_t *room, size_t count, size_t more, size_t item_size);
bool __wrap_vec_grow(void **items, size_t *room, size_t count, size_t more, size_t item_size);

bool __wrap_vec_grow(void **items, size_t *room, size_t count, size_t more, size_t item_size)
{
	return !(no_table && item_size == sizeof(struct open_call)) &&
	       __real_vec_grow(items, room, count, more, item_size);
}

static unsigned packets_taken; /* of pairs, before one fails; 0: all */

struct error *__real_stream_write_pairs(struct stream *stream, struct stream_sink *sink,
					struct packet *packet);
struct error *__wrap_stream_write_pairs(struct stream *stream, struct stream_sink *sink,
					struct packet *packet);

struct error *__wrap_stream_write_pairs(struct stream *stream, struct stream_sink *sink,
					struct packet *packet)
{
	if (packets_taken && !--packets_taken)
		return error_new(ERROR_FAILED, "no room");
	return __real_stream_write_pairs(stream, sink, packet);
}

static void set_up(struct rig_trace *trace)
{
	rig_up(4, 2, 0);
	rig_open_trace(trace);
	trace->types.items[EXIT].is_pair = true;
	struct reader_options options = rig_reader_options(trace);
	options.alive = NULL;
	RIG_OK(reader_create(&options, &trace->reader));
	for (uint32_t i = 1; i <= 2; i++)
		rig_pool->threads[i] =
			(struct dt_thread){ .claim = 2, .pid = 70, .tid = 70 + i, .chunks = 99 };
	now = START;
	no_memory = no_table = false;
}

static void tear_down(struct rig_trace *trace)
{
	rig_remove(trace);
	rig_down();
}

static void note(struct rig_trace *trace, const void *owner, uint32_t thread, uint64_t begin)
{
	open_calls_note(trace->reader, owner, thread, ENTRY, begin, NULL, 0);
}

/* A published chunk with the pairs of calls of that thread that began at START + `from` and so on,
 * every `step`-th of them, and end now. */
static void publish(uint32_t thread, uint32_t index, uint32_t sequence, unsigned from, unsigned to,
		    unsigned step)
{
	uint64_t *words = (uint64_t *)((char *)rig_pool + dt_words_offset());
	struct dt_chunk *descs = (struct dt_chunk *)((char *)rig_pool + dt_descs_offset(6));
	uint64_t *at = (uint64_t *)((char *)rig_pool +
				    dt_chunk_offset(rig_control->chunks_offset, 4, index));
	uint32_t count = 0;

	now = now < START + CALLS ? START + CALLS : now;
	descs[index] = (struct dt_chunk){ .begin = now, .sequence = sequence };
	for (unsigned i = from; i < to; i += step, at += PAIR_WORDS, count++) {
		at[0] = ++now << 24 | EXIT;
		at[1] = START + i;
	}
	descs[index].used = count * PAIR_WORDS * 8;
	descs[index].count = count;
	descs[index].end = ++now;
	assert_true(descs[index].used <= DT_CHUNK_BIG);
	words[index] =
		DT_CHUNK_WORD(DT_CHUNK_GENERATION(words[index]) + 1, thread, DT_CHUNK_PUBLISHED);
	rig_pool->big_free--;
}

static void drain(struct rig_trace *trace)
{
	size_t chunks = 0;

	RIG_OK(reader_drain(trace->reader, &chunks));
	assert_int_equal(chunks, 1);
}

static void finish_without_memory(struct rig_trace *trace)
{
	struct error *error = reader_finish(trace->reader, &trace->totals);

	assert_non_null(error);
	assert_string_equal(error_text(error), "out of memory");
	error_free(error);
	reader_destroy(trace->reader);
	RIG_OK(writer_close(trace->writer));
}

/* Entries in the trace, and exits, as babeltrace2 reads them. */
static void expect(const struct rig_trace *trace, uint64_t entries, uint64_t exits)
{
	assert_int_equal(rig_judge(trace, " bare: ").events, entries);
	assert_int_equal(rig_judge(trace, " two: ").events, exits);
}

/* Every third call returns. Calls of another thread began at the same time, and stay inside. */
static void test_returned(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	for (unsigned i = 0; i < CALLS; i++)
		note(&trace, &ours, 1, START + i);
	for (unsigned i = 0; i < FEW; i++)
		note(&trace, &ours, 2, START + i);
	publish(1, 4, 0, 0, CALLS, 3);
	drain(&trace);
	rig_finish(&trace);
	expect(&trace, CALLS + FEW, CALLS / 3);
	assert_int_equal(trace.totals.lost, 0);
	tear_down(&trace);
}

/* Whoever looks again forgets what was seen before, and only that. */
static void test_forgotten(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	for (unsigned i = 0; i < CALLS; i++)
		note(&trace, i % 7 ? &ours : &others, 1, START + i);
	open_calls_forget(trace.reader, &ours);
	for (unsigned i = 1; i <= FEW; i++)
		note(&trace, &ours, 1, START + i);
	publish(1, 4, 0, 0, 14, 7); /* two of the others' */
	drain(&trace);
	publish(1, 5, 1, 1, 3, 1); /* two of ours */
	drain(&trace);
	rig_finish(&trace);
	/* each pair has an entry, too */
	expect(&trace, (CALLS + 6) / 7 + FEW, 4);
	tear_down(&trace);
}

/* There was no memory for its fields: it is lost, unless it returns. */
static void test_no_memory(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	for (unsigned i = 0; i < FEW; i++) {
		no_memory = i != 1;
		note(&trace, &ours, 1, START + i);
	}
	no_memory = false;
	publish(1, 4, 0, 0, 1, 1);
	drain(&trace);
	finish_without_memory(&trace);
	expect(&trace, 2, 1);
	assert_int_equal(trace.totals.lost, FEW - 2);
	assert_int_equal(trace.types.items[ENTRY].lost, FEW - 2);
	tear_down(&trace);
}

/* (R10) There was no memory to note it at all: it is lost, unless it is noted anew. */
static void test_no_table(void **unused)
{
	for (unsigned noted = 0; noted <= 2; noted += 2) {
		struct rig_trace trace;

		set_up(&trace);
		for (unsigned again = 0; again < 2; again++) {
			open_calls_forget(trace.reader, &ours);
			for (unsigned i = 0; i < FEW; i++) {
				no_table = i >= noted;
				note(&trace, &ours, 1, START + i);
			}
			note(&trace, &others, 2, START);
			open_calls_forget(trace.reader, &others);
		}
		no_table = false;
		finish_without_memory(&trace);
		expect(&trace, noted, 0);
		assert_int_equal(trace.totals.lost, FEW - noted);
		assert_int_equal(trace.types.items[ENTRY].lost, FEW - noted);
		tear_down(&trace);
	}
}

/* (V3) The packet of the old entry is written, and the one behind it fails: the entry isn't written
 * again, and the other events are lost. If the first one fails, all are written in the end. */
static void test_half_a_reading(void **unused)
{
	for (unsigned taken = 1; taken <= 2; taken++) {
		struct rig_trace trace;
		size_t chunks = 0;

		set_up(&trace);
		uint64_t *first = (uint64_t *)((char *)rig_pool +
					       dt_chunk_offset(rig_control->chunks_offset, 4, 4));
		publish(1, 4, 0, 0, FEW, 1);
		first[1] -= LONG_AGO;
		packets_taken = taken;
		struct error *error = reader_drain(trace.reader, &chunks);
		assert_non_null(error);
		error_free(error);
		assert_int_equal(packets_taken, 0);
		drain(&trace);
		rig_finish(&trace);
		bool is_half = taken == 2;
		expect(&trace, is_half ? 1 : FEW, is_half ? 0 : FEW);
		assert_int_equal(trace.totals.lost, is_half ? 2 * FEW - 1 : 0);
		assert_int_equal(trace.types.items[ENTRY].hits, is_half ? 1 : FEW);
		assert_int_equal(trace.types.items[EXIT].hits, is_half ? 0 : FEW);
		assert_int_equal(trace.totals.events, is_half ? 1 : 2 * FEW);
		assert_int_equal(trace.totals.holes, 0);
		tear_down(&trace);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_returned),
		cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_no_table),
		cmocka_unit_test(test_half_a_reading),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
