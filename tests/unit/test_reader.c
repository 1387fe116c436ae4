/*
 * The reader, on pools written by hand: chunks that wait, holes, dead threads, time, and lies.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "control/base/now.h"
#include "control/record/losses.h"
#include "rig.h"

#define SMALL 4
#define BIG 8

static uint64_t *words;
static struct dt_chunk *descs;
/* The clock, of which the events of a chunk take one cycle each. The reader's own is ahead of it by
 * more than any test takes; 0: the machine's. */
#define START ((3ULL << 40) + 12345)
#define AHEAD (1ULL << 39)
static uint64_t now, reader_clock_now;
static bool thread_is_alive;
/* Options of the next reader. */
static const struct reader_pauses *pauses;
static bool only_inside;

static uint64_t read_clock(void)
{
	return reader_clock_now ? reader_clock_now : __rdtsc();
}

static bool alive(void *context, const struct reader_thread *thread)
{
	(void)context;
	(void)thread;
	return thread_is_alive;
}

static void outer(void *context, struct reader_thread *thread)
{
	(void)context;
	thread->outer_pid += 1000;
	thread->outer_tid += 1000;
}

static void set_up_at(struct rig_trace *trace, uint64_t start)
{
	rig_up(SMALL, BIG, 0);
	rig_open_trace(trace);
	struct reader_options options = rig_reader_options(trace);

	options.alive = alive;
	options.outer = outer;
	options.clock = read_clock;
	options.pauses = pauses;
	options.only_inside = only_inside;
	options.depth = UINT32_MAX;
	RIG_OK(reader_create(&options, &trace->reader));
	words = (uint64_t *)((char *)rig_pool + dt_words_offset());
	descs = (struct dt_chunk *)((char *)rig_pool + dt_descs_offset(SMALL + BIG));
	now = start;
	reader_clock_now = start + AHEAD;
	thread_is_alive = true;
	rig_pool->threads[1] = (struct dt_thread){ .claim = 2, .pid = 70, .tid = 71, .chunks = 99 };
	rig_pool->threads[2] = (struct dt_thread){ .claim = 2, .pid = 70, .tid = 72, .chunks = 99 };
}

static void set_up(struct rig_trace *trace)
{
	set_up_at(trace, START);
}

static void tear_down(struct rig_trace *trace)
{
	rig_remove(trace);
	rig_down();
	pauses = NULL;
	only_inside = false;
}

static uint64_t *chunk_at(uint32_t index)
{
	return (uint64_t *)((char *)rig_pool +
			    dt_chunk_offset(rig_control->chunks_offset, SMALL, index));
}

static uint64_t header(uint64_t clock, uint64_t id)
{
	return clock << 24 | id;
}

/* A chunk of thread record `thread` with `count` events of two fields, a cycle each; the clock goes
 * on. */
static void fill(uint32_t index, uint32_t thread, uint32_t sequence, uint32_t state, uint32_t count)
{
	uint64_t *at = chunk_at(index);

	descs[index] = (struct dt_chunk){ .begin = now, .sequence = sequence, .used = count * 24,
					  .count = count };
	for (uint32_t i = 0; i < count; i++, at += 3) {
		at[0] = header(++now, RIG_TWO);
		at[1] = sequence;
		at[2] = i;
	}
	descs[index].end = ++now;
	bool free = DT_CHUNK_STATE(words[index]) == DT_CHUNK_FREE;
	words[index] = DT_CHUNK_WORD(DT_CHUNK_GENERATION(words[index]) + 1, thread, state);
	if (free)
		index < SMALL ? rig_pool->small_free-- : rig_pool->big_free--;
}

static bool is_free(uint32_t index)
{
	if (DT_CHUNK_STATE(words[index]) != DT_CHUNK_FREE)
		return false;
	for (uint32_t i = 0; i < dt_chunk_size(SMALL, index) / 8; i++)
		assert_int_equal(chunk_at(index)[i], 0); /* B4 */
	return true;
}

static size_t drain(struct rig_trace *trace)
{
	size_t chunks = 0;

	RIG_OK(reader_drain(trace->reader, &chunks));
	return chunks;
}

static uint64_t hits(const struct rig_trace *trace)
{
	return trace->types.items[RIG_TWO].hits;
}

/* The events, in order: their first fields (the chunk's sequence number), as a string of digits. */
static char *order(const struct rig_trace *trace)
{
	_cleanup_free_ char *text = rig_babeltrace(trace, "");
	char *digits = calloc(1, strlen(text) + 1);
	size_t count = 0;

	for (char *at = text; (at = strstr(at, "arg0 = ")); at += 7)
		digits[count++] = at[7];
	return digits;
}

static void expect_order(const struct rig_trace *trace, const char *expected)
{
	_cleanup_free_ char *digits = order(trace);

	assert_string_equal(digits, expected);
}

/* ---- order -------------------------------------------------------------------------------- */

static void test_order_is_by_sequence(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(9, 1, 0, DT_CHUNK_PUBLISHED, 2);
	fill(4, 1, 1, DT_CHUNK_PUBLISHED, 1);
	fill(7, 1, 2, DT_CHUNK_PUBLISHED, 3);
	fill(0, 1, 3, DT_CHUNK_PUBLISHED, 1);
	assert_int_equal(drain(&trace), 4);
	assert_int_equal(hits(&trace), 7);
	assert_true(is_free(9) && is_free(4) && is_free(7) && is_free(0));
	assert_int_equal(rig_pool->small_free, SMALL);
	assert_int_equal(rig_pool->big_free, BIG);
	assert_int_equal(drain(&trace), 0);
	rig_finish(&trace);
	assert_int_equal(trace.totals.packets, 1); /* V7 */
	expect_order(&trace, "0012223");
	assert_int_equal(
		rig_judge(&trace, "{ tid = 1071, pid = 1070, vtid = 71, vpid = 70, procname = \"\" }").events, 7);
	tear_down(&trace);
}

/* (V7) Chunks of a thread share a packet, but not over a loss, a long time or a missing number; one
 * that isn't complete stays behind. Each event is counted once. */
static void test_chunks_share_packets(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 2);
	fill(0, 1, 1, DT_CHUNK_PUBLISHED, 3);
	fill(5, 1, 2, DT_CHUNK_PUBLISHED, 1);
	descs[5].lost = rig_pool->threads[1].lost = 2; /* before it */
	fill(1, 1, 3, DT_CHUNK_PUBLISHED, 2);
	descs[1].lost = 2;
	now += 1ULL << 38; /* cycles */
	fill(6, 1, 4, DT_CHUNK_PUBLISHED, 1);
	fill(7, 1, 5, DT_CHUNK_PUBLISHED, 2730); /* no room for more than that */
	fill(8, 1, 6, DT_CHUNK_PUBLISHED, 3);
	fill(9, 1, 7, DT_CHUNK_PUBLISHED, 2);
	descs[6].lost = descs[7].lost = descs[8].lost = descs[9].lost = 2;
	chunk_at(9)[3] |= DT_EVENT_PENDING; /* its second event */
	fill(2, 2, 0, DT_CHUNK_PUBLISHED, 1); /* another thread's */
	assert_int_equal(drain(&trace), 8);
	assert_int_equal(hits(&trace), 2 + 3 + 1 + 2 + 1 + 2730 + 3 + 1 + 1);
	assert_true(is_free(4) && is_free(0) && is_free(1) && is_free(8) && !is_free(9));
	chunk_at(9)[3] &= ~(uint64_t)DT_EVENT_PENDING;
	assert_int_equal(drain(&trace), 1);
	rig_finish(&trace);
	/* 0 1 | 2 3 | 4 | 5 | 6 | 7 | 7's second | the other thread's */
	assert_int_equal(trace.totals.packets, 8);
	assert_int_equal(trace.totals.events, 2745);
	assert_int_equal(trace.totals.lost, 2);
	assert_int_equal(trace.totals.holes, 0);
	assert_int_equal(rig_judge(&trace, "arg0 = 0").events, 3);
	assert_int_equal(rig_judge(&trace, "arg0 = 5").events, 2730);
	assert_int_equal(rig_judge(&trace, "arg0 = 7").events, 2);
	tear_down(&trace);
}

/* A chunk that was never there (or whose number is a lie) holds nothing up for good. */
static void test_missing_sequence(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(5, 1, 3, DT_CHUNK_PUBLISHED, 2);
	assert_int_equal(drain(&trace), 1);
	fill(6, 1, 1, DT_CHUNK_PUBLISHED, 1); /* late: a number that is over */
	assert_int_equal(drain(&trace), 1);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 3);
	assert_int_equal(rig_judge(&trace, NULL).events, 3);
	tear_down(&trace);
}

/* ---- events that aren't complete ---------------------------------------------------------- */

static void test_pending_event_holds_chunks_back(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 5);
	chunk_at(4)[6] |= DT_EVENT_PENDING; /* the third event */
	fill(5, 1, 1, DT_CHUNK_PUBLISHED, 1);
	fill(6, 2, 0, DT_CHUNK_PUBLISHED, 1); /* another thread isn't held up */
	assert_int_equal(drain(&trace), 1);
	assert_int_equal(hits(&trace), 3);
	assert_false(is_free(4) || is_free(5));
	assert_int_equal(drain(&trace), 0);
	assert_int_equal(hits(&trace), 3);
	chunk_at(4)[6] &= ~(uint64_t)DT_EVENT_PENDING; /* the hit goes on */
	assert_int_equal(drain(&trace), 2);
	assert_true(is_free(4) && is_free(5));
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 7);
	assert_int_equal(trace.totals.holes, 0);
	expect_order(&trace, "0000010");
	tear_down(&trace);
}

/* A hit that never goes on, on a thread that does: read around it, and don't give the chunk away
 * yet. */
static void test_patience_ends(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 5);
	chunk_at(4)[6] |= DT_EVENT_PENDING;
	for (uint32_t i = 1; i < 4; i++)
		fill(4 + i, 1, i, DT_CHUNK_PUBLISHED, 1);
	assert_int_equal(drain(&trace), 0);
	fill(8, 1, 4, DT_CHUNK_PUBLISHED, 1);
	assert_int_equal(drain(&trace), 5);
	assert_int_equal(hits(&trace), 8);
	assert_int_equal(DT_CHUNK_STATE(words[4]), DT_CHUNK_PUBLISHED);
	assert_true(is_free(5) && is_free(8));
	drain(&trace);
	assert_false(is_free(4));
	/* after all: too late for the trace, not for the chunk */
	chunk_at(4)[6] &= ~(uint64_t)DT_EVENT_PENDING;
	drain(&trace);
	assert_true(is_free(4));
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 8);
	assert_int_equal(trace.totals.holes, 1);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 8);
	assert_int_equal(verdict.discarded, 1);
	tear_down(&trace);
}

/* siglongjmp: after many more chunks of that thread the hole is given up. */
static void test_hole_is_given_up(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 2);
	memset(chunk_at(4), 0, 24); /* its header was never written */
	for (uint32_t i = 1; i < 5; i++)
		fill(4 + i, 1, i, DT_CHUNK_PUBLISHED, 1);
	assert_int_equal(drain(&trace), 5);
	assert_false(is_free(4));
	for (uint32_t i = 5; i < 65; i++) {
		fill(5, 1, i, DT_CHUNK_PUBLISHED, 1);
		assert_int_equal(drain(&trace), 1);
	}
	drain(&trace);
	assert_true(is_free(4));
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 1 + 4 + 60);
	assert_int_equal(trace.totals.holes, 1);
	tear_down(&trace);
}

/* A thread that died in the middle of three hits, one within the other. */
static void test_dead_thread(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	uint64_t *at = chunk_at(0);
	fill(0, 1, 0, DT_CHUNK_OWNED, 10);
	descs[0].used = descs[0].count = 0;
	at[3] |= DT_EVENT_PENDING; /* the second: its payload may be anything */
	at[5] = header(now, RIG_BARE);
	memset(at + 9, 0, 24); /* the fourth: not even its header */
	memset(at + 12, 0, 24); /* and the fifth */
	at[27] |= DT_EVENT_PENDING; /* the last */
	RIG_OK(reader_reap(trace.reader));
	assert_int_equal(hits(&trace), 0); /* it is alive */
	thread_is_alive = false;
	rig_pool->threads[1].lost = 4;
	RIG_OK(reader_reap(trace.reader));
	assert_int_equal(hits(&trace), 6);
	assert_true(is_free(0));
	assert_int_equal(rig_pool->threads[1].claim, 0);
	assert_int_equal(rig_pool->threads[2].claim, 0);
	rig_finish(&trace);
	/* Two holes side by side look like one in a chunk that nobody counted. */
	assert_int_equal(trace.totals.holes, 3);
	assert_int_equal(trace.totals.lost, 4);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 6);
	assert_int_equal(verdict.discarded, 7);
	tear_down(&trace);
}

/* In a published chunk the count tells how many are in the hole. */
static void test_holes_are_counted(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 10);
	memset(chunk_at(4) + 6, 0, 3 * 24);
	memset(chunk_at(4) + 27, 0, 24);
	thread_is_alive = false;
	RIG_OK(reader_reap(trace.reader));
	assert_true(is_free(4));
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 6);
	assert_int_equal(trace.totals.holes, 4);
	assert_int_equal(rig_judge(&trace, NULL).discarded, 4);
	tear_down(&trace);
}

/* A thread dies between taking a chunk and describing it: what the descriptor says is of another
 * time. */
static void test_dead_thread_with_blank_chunk(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 2);
	fill(5, 1, 77, DT_CHUNK_OWNED, 0);
	descs[5].lost = 5555;
	thread_is_alive = false;
	RIG_OK(reader_reap(trace.reader));
	assert_true(is_free(4) && is_free(5));
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 2);
	assert_int_equal(trace.totals.lost, 0);
	assert_int_equal(rig_judge(&trace, NULL).discarded, 0);
	tear_down(&trace);
}

/* ---- flush -------------------------------------------------------------------------------- */

static void test_flush_reads_once(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_OWNED, 3);
	RIG_OK(reader_flush(trace.reader));
	assert_int_equal(hits(&trace), 3);
	RIG_OK(reader_flush(trace.reader));
	assert_int_equal(hits(&trace), 3);
	uint64_t *at = chunk_at(4) + 9; /* two more; the first isn't complete */
	at[4] = at[5] = 5;
	at[3] = header(now + 2, RIG_TWO);
	at[0] = header(now + 1, RIG_TWO | DT_EVENT_PENDING);
	RIG_OK(reader_flush(trace.reader));
	assert_int_equal(hits(&trace), 3);
	at[0] = header(now + 1, RIG_TWO);
	RIG_OK(reader_flush(trace.reader));
	assert_int_equal(hits(&trace), 5);
	assert_int_equal(DT_CHUNK_STATE(words[4]), DT_CHUNK_OWNED);
	at[6] = header(now + 9, RIG_BARE);
	descs[4].used = 8 * 16;
	descs[4].count = 6;
	words[4] = DT_CHUNK_WORD(DT_CHUNK_GENERATION(words[4]), 1, DT_CHUNK_PUBLISHED);
	assert_int_equal(drain(&trace), 1);
	assert_true(is_free(4));
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 6);
	assert_int_equal(trace.totals.holes, 0);
	assert_int_equal(rig_judge(&trace, NULL).events, 6);
	tear_down(&trace);
}

/* A flush doesn't pass a chunk that waits. */
static void test_flush_keeps_order(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(6, 1, 0, DT_CHUNK_PUBLISHED, 2);
	chunk_at(6)[3] |= DT_EVENT_PENDING;
	fill(4, 1, 1, DT_CHUNK_OWNED, 3);
	RIG_OK(reader_flush(trace.reader));
	assert_int_equal(hits(&trace), 1);
	chunk_at(6)[3] &= ~(uint64_t)DT_EVENT_PENDING;
	RIG_OK(reader_flush(trace.reader));
	assert_int_equal(hits(&trace), 5);
	rig_finish(&trace);
	expect_order(&trace, "00111");
	tear_down(&trace);
}

/* ---- a trace that can't be written -------------------------------------------------------- */

/* The files take nothing. */
static void fail_to_drain(struct rig_trace *trace)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	struct rlimit before, limit;
	size_t chunks = 0;

	sigaction(SIGXFSZ, &ignore, &old);
	getrlimit(RLIMIT_FSIZE, &before);
	limit = before;
	limit.rlim_cur = 100;
	setrlimit(RLIMIT_FSIZE, &limit);
	struct error *error = reader_drain(trace->reader, &chunks);
	setrlimit(RLIMIT_FSIZE, &before);
	sigaction(SIGXFSZ, &old, NULL);
	assert_non_null(error);
	error_free(error);
	assert_int_equal(hits(trace), 0);
}

/* V3: a packet that the disk doesn't take is no hit; its events are read again, and counted
 * once. */
static void test_failed_write_counts_nothing(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 3);
	fill(0, 1, 1, DT_CHUNK_PUBLISHED, 2); /* in the same packet (V7) */
	fail_to_drain(&trace);
	assert_false(is_free(4) || is_free(0));
	assert_int_equal(drain(&trace), 2);
	assert_int_equal(hits(&trace), 5);
	assert_true(is_free(4) && is_free(0));
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 5);
	assert_int_equal(rig_judge(&trace, NULL).events, 5);
	tear_down(&trace);
}

/* V3: events of a pause are dropped again by the next reading, and don't stand for a missing
 * one. */
static void test_failed_write_hides_no_hole(void **unused)
{
	struct reader_pauses paused = { .items = { { START, START + 3 } }, .count = 1 };
	struct rig_trace trace;

	pauses = &paused;
	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 5);
	descs[4].count = 6; /* its owner counted one more */
	fail_to_drain(&trace);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 2);
	assert_int_equal(trace.totals.holes, 1);
	tear_down(&trace);
}

/* V3: what --only-inside leaves out is left out once. */
static void test_failed_write_leaves_nothing_out(void **unused)
{
	struct rig_trace trace;

	only_inside = true;
	set_up(&trace);
	trace.types.items[RIG_BARE].has_exit = trace.types.items[RIG_BARE].encloses = true;
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 3);
	uint64_t *third = chunk_at(4) + 6; /* two exits without an entry; then a call */
	memmove(third + 1, third, 24);
	*third = header(now - 1, RIG_BARE);
	descs[4].used += 8;
	descs[4].count++;
	fail_to_drain(&trace);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 2);
	assert_int_equal(trace.totals.outside, 2);
	tear_down(&trace);
}

/* ---- time --------------------------------------------------------------------------------- */

static void test_clock_steps_back_in_a_chunk(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 4);
	chunk_at(4)[6] = header(descs[4].begin - 5, RIG_TWO); /* the third, before the first */
	descs[4].begin += 2; /* and the first before the beginning */
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 4);
	assert_int_equal(trace.totals.stepped_back, 2);
	expect_order(&trace, "0000");
	tear_down(&trace);
}

static void expect_clock(const char *text, uint64_t clock)
{
	char expected[64];

	snprintf(expected, sizeof(expected), "[%020lu]", clock);
	assert_non_null(strstr(text, expected));
}

/* Six events from `start` on, and one 2^38 cycles later: each has its clock in the trace. */
static void check_clocks_from(uint64_t start)
{
	struct rig_trace trace;

	set_up_at(&trace, start);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 6);
	now += 1ULL << 38;
	fill(5, 1, 1, DT_CHUNK_PUBLISHED, 1);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 7);
	assert_int_equal(trace.totals.stepped_back, 0);
	_cleanup_free_ char *text = rig_babeltrace(&trace, "--clock-cycles --no-delta");
	for (uint64_t i = 1; i <= 6; i++)
		expect_clock(text, start + i);
	expect_clock(text, now - 1);
	tear_down(&trace);
}

/* B6: 40 bits of clock in the header are enough. They wrap in the chunk, or between two. */
static void test_clock_wraps_and_gaps(void **unused)
{
	check_clocks_from((1ULL << 40) - 3);
	check_clocks_from((7ULL << 40) - 3);
	check_clocks_from((1ULL << 40) - (1ULL << 37));
}

/* The machine has just booted. */
static void test_clock_near_zero(void **unused)
{
	check_clocks_from(0);
	check_clocks_from(1);
	check_clocks_from((1ULL << 38) - 3);
	check_clocks_from(1ULL << 39);
}

/* (B5) The clock was set back by hours between two chunks: both are in the trace, and it opens. */
static void test_clock_set_back(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	rig_pool->threads[1].lost = 5;
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 2);
	descs[4].lost = 2;
	now -= 1ULL << 37;
	fill(5, 1, 1, DT_CHUNK_PUBLISHED, 3);
	descs[5].lost = 3;
	now -= 100; /* and a little, by another CPU's clock */
	fill(6, 1, 2, DT_CHUNK_PUBLISHED, 1);
	descs[6].lost = 3;
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 6);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 6);
	assert_int_equal(verdict.discarded, 5);
	tear_down(&trace);
}

/* ---- lies --------------------------------------------------------------------------------- */

/* All counters of lost events claim the most that they can: the trace reports no more than the time
 * allows, and the totals say that the counts are damaged. */
static void test_claimed_losses(void **unused)
{
	struct rig_trace trace;
	uint64_t start = now_ns();

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 3);
	descs[4].lost = UINT64_MAX;
	for (size_t i = 1; i < DT_THREADS_MAX; i++)
		rig_pool->threads[i].lost = UINT64_MAX;
	for (size_t i = 0; i < RIG_TYPES; i++)
		rig_pool->tallies[i].lost = UINT64_MAX;
	rig_pool->lost_homeless = UINT64_MAX;
	rig_pool->overwritten = UINT64_MAX;
	RIG_OK(reader_drain(trace.reader, NULL));
	rig_finish(&trace);
	uint64_t possible = losses_possible(start), by_type = 0;
	assert_true(trace.totals.damaged);
	assert_true(trace.totals.lost > 0 && trace.totals.lost <= possible);
	assert_true(trace.totals.overwritten <= possible);
	for (size_t i = 0; i < trace.types.count; i++)
		by_type += trace.types.items[i].lost;
	assert_true(by_type <= possible);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 3);
	assert_int_equal(verdict.discarded, trace.totals.lost);
	tear_down(&trace);
}

/* Counts that were possible are exact, and nothing is said. */
static void test_true_losses(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 3);
	rig_pool->threads[1].lost = 200;
	rig_pool->lost_homeless = 7;
	uint64_t start = now_ns();
	while (losses_possible(start) < 207)
		;
	rig_finish(&trace);
	assert_false(trace.totals.damaged);
	assert_int_equal(trace.totals.lost, 207);
	assert_int_equal(rig_judge(&trace, NULL).discarded, 207);
	tear_down(&trace);
}

static void test_lies(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(4, 1, 0, DT_CHUNK_PUBLISHED, 3);
	chunk_at(4)[3] = header(now, 12345); /* no such event */
	fill(5, 0xffffff, 0, DT_CHUNK_PUBLISHED, 2); /* no such thread */
	fill(6, 0, 9, DT_CHUNK_PUBLISHED, 2);
	fill(7, 2, 0, DT_CHUNK_PUBLISHED, 2);
	descs[7].used = UINT32_MAX;
	descs[7].count = UINT32_MAX;
	descs[7].begin = UINT64_MAX - 5;
	descs[7].end = 1;
	fill(8, 2, 1, 200, 2); /* no such state */
	fill(9, 2, 1, DT_CHUNK_CLOSING, 2);
	fill(0, 2, 2, DT_CHUNK_PUBLISHED, 1);
	descs[0].used = 13; /* no multiple of 8, and within the event */
	rig_pool->small_count = rig_pool->big_count = UINT32_MAX;
	rig_pool->small_hint = rig_pool->thread_hint = UINT32_MAX;
	rig_finish(&trace);
	/* 1 before the lie; 2 and 2 of no thread; 2; 2 of a chunk that was being closed; 0. */
	assert_int_equal(trace.totals.events, 9);
	assert_int_equal(rig_judge(&trace, NULL).events, 9);
	tear_down(&trace);
}

static void test_event_beyond_the_end(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill(0, 1, 0, DT_CHUNK_PUBLISHED, 170); /* 4080 bytes of 4096 */
	chunk_at(0)[510] = header(now, RIG_TWO);
	chunk_at(0)[511] = 1;
	descs[0].used = 4096;
	uint64_t next = *chunk_at(1);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 170);
	assert_int_equal(trace.totals.holes, 1);
	assert_int_equal(*chunk_at(1), next);
	tear_down(&trace);
}

static void test_pool_too_small(void **unused)
{
	struct rig_trace trace;
	struct reader *reader;

	set_up(&trace);
	struct reader_options options = { .pool = rig_pool,
					  .pool_size = rig_control->pool_size - 1,
					  .small_count = SMALL,
					  .big_count = BIG,
					  .types = &trace.types,
					  .writer = trace.writer };
	struct error *error = reader_create(&options, &reader);
	assert_non_null(error);
	error_free(error);
	rig_finish(&trace);
	tear_down(&trace);
}

/* ---- read while it is written ------------------------------------------------------------- */

#define LIVE_HITS 300000

static uint64_t live_recorded;

static void *hit_on(void *unused)
{
	for (uint64_t i = 0; i < LIVE_HITS; i++)
		live_recorded += (uint64_t)rig_hit(RIG_SIX, i * 8);
	return NULL;
}

/* No event is seen half written: all six fields belong together, and the events are in order. */
static void test_flush_while_written(void **unused)
{
	struct rig_trace trace;
	pthread_t thread;
	uint64_t count = 0, last = 0;

	set_up(&trace);
	reader_clock_now = 0;
	memset(rig_pool->threads, 0, sizeof(rig_pool->threads));
	live_recorded = 0;
	pthread_create(&thread, NULL, hit_on, NULL);
	while (pthread_tryjoin_np(thread, NULL)) {
		RIG_OK(reader_flush(trace.reader));
		drain(&trace);
	}
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, live_recorded);
	_cleanup_free_ char *text = rig_babeltrace(&trace, "");
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n")) && *line == '['; count++) {
		uint64_t a[6];

		assert_int_equal(
			sscanf(strstr(line, "arg0"),
			       "arg0 = %lu, arg1 = %lu, arg2 = %lu, arg3 = %lu, arg4 = %lu, arg5 = "
			       "%lu",
			       a, a + 1, a + 2, a + 3, a + 4, a + 5),
			6);
		for (uint64_t i = 1; i < 6; i++)
			assert_int_equal(a[i], a[0] + i);
		assert_true(!count || a[0] > last);
		last = a[0];
	}
	assert_int_equal(count, live_recorded);
	tear_down(&trace);
}

static bool enemy_stops;
static uint64_t enemy_turns;

/* Writes anything anywhere, all the time; most of it looks likely. */
static void *be_an_enemy(void *unused)
{
	uint64_t random = 88172645463325252;
	uint64_t size = rig_control->pool_size - dt_words_offset();

	while (!__atomic_load_n(&enemy_stops, __ATOMIC_RELAXED)) {
		__atomic_fetch_add(&enemy_turns, 1, __ATOMIC_RELAXED);
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		uint32_t index = (uint32_t)(random >> 8) % (SMALL + BIG);
		uint64_t *chunk = chunk_at(index);
		switch (random % 8) {
		case 0:
			words[index] =
				DT_CHUNK_WORD(random >> 60, (random >> 20) % 3, (random >> 30) % 5);
			break;
		case 1:
			descs[index].used = (uint32_t)(random >> 40) % 70000;
			descs[index].sequence = (uint32_t)(random >> 33) % 8;
			break;
		case 2:
			descs[index].begin = random;
			break;
		case 3:
			*(uint64_t *)((char *)rig_pool + dt_words_offset() +
				      (random >> 20) % size / 8 * 8) = random;
			break;
		default:
			for (uint64_t i = 0; i < 8; i++)
				chunk[i] = header(now + (random >> 24) % 4096,
						  (random >> 58) % 16 ? RIG_BARE : random);
		}
	}
	return NULL;
}

/* Under all that: no crash, no hang, and a trace that opens. */
static void test_enemy(void **unused)
{
	struct rig_trace trace;
	pthread_t thread;

	set_up(&trace);
	enemy_stops = false;
	enemy_turns = 0;
	pthread_create(&thread, NULL, be_an_enemy, NULL);
	for (int i = 0; i < 3000 || __atomic_load_n(&enemy_turns, __ATOMIC_RELAXED) < 3000000;
	     i++) {
		thread_is_alive = i % 7;
		drain(&trace);
		RIG_OK(reader_flush(trace.reader));
		if (i % 64 == 0)
			RIG_OK(reader_reap(trace.reader));
		rig_pool->threads[1].claim = rig_pool->threads[2].claim = 2;
	}
	RIG_OK(reader_finish(trace.reader, &trace.totals)); /* while the enemy is still at it */
	__atomic_store_n(&enemy_stops, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	reader_destroy(trace.reader);
	RIG_OK(writer_close(trace.writer));
	assert_true(trace.totals.events > 100);
	_cleanup_free_ char *text = rig_babeltrace(&trace, "--component sink.utils.counter");
	char expected[64];
	snprintf(expected, sizeof(expected), "%lu Event messages", trace.totals.events);
	assert_non_null(strstr(text, expected));
	tear_down(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_claimed_losses),
		cmocka_unit_test(test_true_losses),
		cmocka_unit_test(test_order_is_by_sequence),
		cmocka_unit_test(test_chunks_share_packets),
		cmocka_unit_test(test_missing_sequence),
		cmocka_unit_test(test_pending_event_holds_chunks_back),
		cmocka_unit_test(test_patience_ends),
		cmocka_unit_test(test_hole_is_given_up),
		cmocka_unit_test(test_dead_thread),
		cmocka_unit_test(test_holes_are_counted),
		cmocka_unit_test(test_dead_thread_with_blank_chunk),
		cmocka_unit_test(test_flush_reads_once),
		cmocka_unit_test(test_flush_keeps_order),
		cmocka_unit_test(test_failed_write_counts_nothing),
		cmocka_unit_test(test_failed_write_hides_no_hole),
		cmocka_unit_test(test_failed_write_leaves_nothing_out),
		cmocka_unit_test(test_clock_steps_back_in_a_chunk),
		cmocka_unit_test(test_clock_wraps_and_gaps),
		cmocka_unit_test(test_clock_near_zero),
		cmocka_unit_test(test_clock_set_back),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_event_beyond_the_end),
		cmocka_unit_test(test_pool_too_small),
		cmocka_unit_test(test_flush_while_written),
		cmocka_unit_test(test_enemy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
