/*
 * The buffer's protocol, all of it: every interleaving of a thread that hits, signal handlers that
 * interrupt it at any step and hit too, and a reader that reads, parks and frees. A small model of
 * the rules in src/shared/layout.h; a step is one instruction, or happens with signals blocked.
 *
 * Two chunks with room for two events. Checked in every state: no thread writes into another's
 * chunk (B1, B4); an event is read once, and in the order of its clock (B3); at the end each
 * hit is an event or counted as lost (B7).
 *
 * In the three modes: with `block` (B8) a hit without room waits, and gives up only where nobody
 * else can do anything any more, which is when a time limit matters; nothing is lost then unless a
 * hit was interrupted by one that waits. With `overwrite` (B9) the thread takes complete chunks
 * itself, and the reader is a snapshot that copies event by event, and believes the copy only if
 * the chunk's word is the same before and behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHUNKS 2
#define ROOM 2
#define LEVELS 3 /* the thread, and handlers in handlers */
#define HITS 8

enum { FREE, OWNED, PUBLISHED, WIPING };
enum { LOAD, SWAP, STORE, WAIT }; /* what a level does next */
enum { DISCARD, BLOCK, OVERWRITE };
static int mode, levels;
static size_t copies, refused_copies, expiries;

struct level {
	uint8_t step;
	uint8_t chunk, offset, generation; /* the reserve word as it was loaded */
	uint8_t clock;
};

struct model {
	uint8_t state[CHUNKS], generation[CHUNKS], used[CHUNKS];
	uint8_t event[CHUNKS][ROOM]; /* clock; 0: nothing there yet */
	uint8_t chunk, offset, reserve_generation, has_chunk; /* slot.reserve */
	struct level level[LEVELS];
	uint8_t depth; /* levels that run; the last one is the one that does */
	uint8_t clock;
	uint8_t made, lost, read;
	uint8_t done[CHUNKS], parked[CHUNKS]; /* the reader's progress */
	uint8_t last; /* clock of the last event read */
	uint8_t order[CHUNKS]; /* sequence number of the chunk */
	uint8_t next_order, reading;
	uint8_t expired; /* (B8) */
	uint8_t overwritten; /* (B9) */
	uint8_t writer[CHUNKS][ROOM]; /* generation of the hit that stored the event */
	uint8_t wiping, wiped; /* the chunk, counted from 1, and how far */
	/* the snapshot's chunk, likewise, and its word before */
	uint8_t copying, copied, copied_word;
	uint8_t copy[ROOM], copy_writer[ROOM];
};

static struct model *seen;
static size_t seen_count, seen_room, ends;
static uint32_t *table;
#define TABLE (1u << 23)

static bool is_new(const struct model *model)
{
	uint64_t hash = 1469598103934665603u;

	for (size_t i = 0; i < sizeof(*model); i++)
		hash = (hash ^ ((const uint8_t *)model)[i]) * 1099511628211u;
	uint32_t at = (uint32_t)(hash >> 20) % TABLE;
	for (; table[at]; at = (at + 1) % TABLE)
		if (!memcmp(&seen[table[at] - 1], model, sizeof(*model)))
			return false;
	if (seen_count == seen_room) {
		seen_room = seen_room ? seen_room * 2 : 1024;
		seen = realloc(seen, seen_room * sizeof(*seen));
	}
	seen[seen_count++] = *model;
	table[at] = (uint32_t)seen_count;
	assert_true(seen_count < TABLE / 2);
	return true;
}

/* ---- the thread --------------------------------------------------------------------------- */

static void own(struct model *m, uint8_t i)
{
	m->state[i] = OWNED;
	m->order[i] = m->next_order++;
	m->chunk = i;
	m->offset = 0;
	m->reserve_generation = m->generation[i];
	m->has_chunk = 1;
	for (int j = 0; j < ROOM; j++)
		assert_int_equal(m->event[i][j], 0); /* B4 */
}

/* (B9) */
static bool is_complete(const struct model *m, uint8_t i)
{
	for (uint8_t j = 0; j < m->used[i]; j++) {
		if (!m->event[i][j])
			return false;
	}
	return true;
}

/* (B9) The oldest that can be had. */
static bool take_published(struct model *m)
{
	uint8_t best = CHUNKS;

	for (uint8_t i = 0; i < CHUNKS; i++) {
		if (m->state[i] == PUBLISHED && is_complete(m, i) &&
		    (best == CHUNKS || m->order[i] < m->order[best]))
			best = i;
	}
	if (best == CHUNKS)
		return false;
	m->state[best] = WIPING;
	m->generation[best]++;
	m->wiping = best + 1;
	m->wiped = 0;
	return true;
}

/* One word of it; signals are blocked meanwhile. */
static void step_wipe(struct model *m)
{
	uint8_t i = m->wiping - 1;

	if (m->wiped < m->used[i]) {
		m->overwritten++;
		m->writer[i][m->wiped] = 0;
		m->event[i][m->wiped++] = 0;
		return;
	}
	m->wiping = m->wiped = m->used[i] = 0;
	own(m, i);
}

/* The slow path, with signals blocked: publish, take another. False: none is free. */
static bool take_chunk(struct model *m)
{
	if (m->has_chunk) {
		m->state[m->chunk] = PUBLISHED;
		m->used[m->chunk] = m->offset;
		m->has_chunk = 0;
	}
	for (uint8_t i = 0; i < CHUNKS; i++) {
		if (m->state[i] != FREE)
			continue;
		m->generation[i]++;
		own(m, i);
		return true;
	}
	return mode == OVERWRITE && take_published(m);
}

static void end_hit(struct model *m)
{
	memset(&m->level[m->depth - 1], 0, sizeof(m->level[0]));
	m->depth--;
}

static void step_thread(struct model *m)
{
	struct level *l = &m->level[m->depth - 1];

	switch (l->step) {
	case LOAD: /* the reserve word, then the clock (B3) */
		if (!m->has_chunk || m->offset == ROOM) {
			if (take_chunk(m))
				return;
			if (mode == BLOCK && !m->expired) {
				assert_int_equal(m->expired, 0); /* nobody begins to wait then */
				l->step = WAIT;
				return;
			}
			m->lost++;
			end_hit(m);
			return;
		}
		*l = (struct level){ SWAP, m->chunk, m->offset, m->reserve_generation, ++m->clock };
		break;
	case SWAP: /* cmpxchg (B2) */
		if (m->has_chunk && m->chunk == l->chunk && m->offset == l->offset &&
		    m->reserve_generation == l->generation) {
			m->offset++;
			l->step = STORE;
		} else {
			*l = (struct level){ .step = LOAD };
		}
		break;
	default: /* the event */
		assert_int_not_equal(m->state[l->chunk], FREE); /* B1 */
		assert_int_equal(m->generation[l->chunk], l->generation);
		assert_int_equal(m->event[l->chunk][l->offset], 0);
		m->event[l->chunk][l->offset] = l->clock;
		m->writer[l->chunk][l->offset] = l->generation;
		end_hit(m);
	}
}

/* ---- the reader --------------------------------------------------------------------------- */

/* Reads on in the chunk that comes next: one event, or what there is to do at its end. */
static bool step_reader(struct model *m)
{
	for (uint8_t i = 0; i < CHUNKS; i++) {
		if (m->state[i] == FREE || m->order[i] != m->reading)
			continue;
		uint8_t end = m->state[i] == PUBLISHED ? m->used[i] : ROOM;
		if (m->done[i] < end && m->event[i][m->done[i]]) {
			assert_true(m->event[i][m->done[i]] > m->last); /* B3 */
			m->last = m->event[i][m->done[i]++];
			m->read++;
			return true;
		}
		if (m->state[i] != PUBLISHED || m->done[i] < end)
			return false; /* being written, or a hit in it isn't over */
		memset(m->event[i], 0, ROOM);
		memset(m->writer[i], 0, ROOM);
		m->expired = 0; /* B8 */
		m->state[i] = FREE;
		m->used[i] = m->done[i] = m->order[i] = 0;
		m->reading++;
		return true;
	}
	return false;
}

/* What stands in a chunk's word: its generation and state. */
static uint8_t word(const struct model *m, uint8_t i)
{
	return (uint8_t)(m->generation[i] << 2 | m->state[i]);
}

/* A copy that is believed holds events of one owner, in order, and up to a hole all of them. */
static void check_copy(const struct model *m)
{
	for (int j = 0; j < ROOM; j++) {
		if (!m->copy[j])
			continue;
		assert_int_equal(m->copy_writer[j], m->copied_word >> 2);
		assert_true(!j || m->copy[j] > m->copy[j - 1]);
	}
	copies++;
}

/* (B9) One event of the chunk that is being copied, or what there is to do before and behind. */
static void step_snapshot(struct model *m, uint8_t chunk)
{
	if (!m->copying) {
		m->copying = chunk + 1;
		m->copied_word = word(m, chunk);
		return;
	}
	uint8_t i = m->copying - 1;
	if (m->copied < ROOM) {
		m->copy[m->copied] = m->event[i][m->copied];
		m->copy_writer[m->copied] = m->writer[i][m->copied];
		m->copied++;
		return;
	}
	/* a chunk may be published meanwhile: the generation counts, and that it isn't being
	 * wiped */
	if (word(m, i) >> 2 == m->copied_word >> 2 && (m->copied_word & 3) != WIPING &&
	    m->state[i] != WIPING)
		check_copy(m);
	else
		refused_copies++;
	m->copying = m->copied = m->copied_word = 0;
	memset(m->copy, 0, sizeof(m->copy));
	memset(m->copy_writer, 0, sizeof(m->copy_writer));
}

/* ---- all of them -------------------------------------------------------------------------- */

static void explore(struct model m);

static bool is_waiting(const struct model *m)
{
	if (!m->depth || m->level[m->depth - 1].step != WAIT || m->expired)
		return false;
	for (int i = 0; i < CHUNKS; i++) {
		if (m->state[i] == FREE)
			return false;
	}
	return true;
}

/* The thread, or who interrupts it. */
static bool explore_thread(const struct model *m)
{
	struct model next = *m;
	bool any = false;

	if (m->wiping) {
		step_wipe(&next);
		explore(next);
		return true;
	}
	if (m->depth && !is_waiting(m)) {
		if (next.level[m->depth - 1].step == WAIT)
			next.level[m->depth - 1].step = LOAD;
		step_thread(&next);
		explore(next);
		any = true;
	}
	/* another hit: of the thread, or of a handler right here */
	if (m->made < HITS && m->depth < levels) {
		next = *m;
		next.depth++;
		next.made++;
		explore(next);
		any = true;
	}
	return any;
}

static bool explore_reader(const struct model *m)
{
	struct model next = *m;

	if (mode != OVERWRITE) {
		if (!step_reader(&next))
			return false;
		explore(next);
		return true;
	}
	for (uint8_t i = 0; i < CHUNKS; i++) {
		if (m->copying ? i : m->state[i] == FREE)
			continue;
		next = *m;
		step_snapshot(&next, i);
		explore(next);
	}
	return m->copying;
}

/* Nobody can do anything more. */
static void check_end(const struct model *m)
{
	unsigned left = 0;

	ends++;
	assert_int_equal(m->depth, 0);
	for (int i = 0; i < CHUNKS && mode == OVERWRITE; i++)
		for (int j = 0; j < ROOM; j++)
			left += m->event[i][j] ? 1 : 0;
	assert_int_equal(m->read + m->lost + m->overwritten + left, HITS); /* B7 */
	if (mode == BLOCK && levels == 1)
		assert_int_equal(m->lost, 0); /* B8 */
}

static void explore(struct model m)
{
	if (!is_new(&m))
		return;
	bool any = explore_thread(&m);

	any |= explore_reader(&m);
	if (any)
		return;
	if (is_waiting(&m)) { /* B8: its time is over */
		assert_int_equal(m.expired, 0); /* nobody waits any more then */
		expiries++;
		m.expired = 1;
		m.level[m.depth - 1].step = LOAD;
		explore(m);
		return;
	}
	check_end(&m);
}

static void explore_all(int chosen, int depth)
{
	mode = chosen;
	levels = depth;
	seen_count = ends = copies = refused_copies = expiries = 0;
	table = calloc(TABLE, sizeof(*table));
	explore((struct model){ 0 });
	print_message("%zu states, %zu ends, %zu expiries, %zu copies, %zu refused\n", seen_count,
		      ends, expiries, copies, refused_copies);
	free(table);
	assert_true(seen_count > 100 && ends > 0);
}

static void test_discard(void **unused)
{
	explore_all(DISCARD, LEVELS);
	assert_true(ends > 10);
}

static void test_block(void **unused)
{
	explore_all(BLOCK, 1);
	assert_int_equal(expiries, 0);
	explore_all(BLOCK, LEVELS);
	/* a hit that waits in a handler of one that isn't complete: the time limit is what ends
	 * it */
	assert_true(expiries > 0);
}

static void test_overwrite(void **unused)
{
	explore_all(OVERWRITE, 1);
	assert_true(copies > 100 && refused_copies > 100);
	explore_all(OVERWRITE, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_discard),
		cmocka_unit_test(test_block),
		cmocka_unit_test(test_overwrite),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(seen);
	return failed;
}
