/*
 * The buffer's protocol, all of it: every interleaving of a thread that hits, signal handlers that interrupt it at any
 * step and hit too, and a reader that reads, parks and frees. A small model of what src/shared/layout.h
 * states; steps are what is one instruction or happens with signals blocked.
 *
 * Two chunks with room for two events. Checked in every state: nobody writes into a chunk that isn't his (B1, B4); an event
 * is read once, and in the order of its clock (B3); at the end each hit is an event or counted as lost (B7).
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

enum { FREE, OWNED, PUBLISHED };
enum { LOAD, SWAP, STORE, DONE }; /* what a level does next */

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
};

static struct model *seen;
static size_t seen_count, seen_room, ends;
static uint32_t *table;
#define TABLE (1u << 22)

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
		m->state[i] = OWNED;
		m->generation[i]++;
		m->order[i] = m->next_order++;
		m->chunk = i;
		m->offset = 0;
		m->reserve_generation = m->generation[i];
		m->has_chunk = 1;
		for (int j = 0; j < ROOM; j++)
			assert_int_equal(m->event[i][j], 0); /* B4 */
		return true;
	}
	return false;
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
			if (!take_chunk(m)) {
				m->lost++;
				end_hit(m);
			}
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
		m->state[i] = FREE;
		m->used[i] = m->done[i] = m->order[i] = 0;
		m->reading++;
		return true;
	}
	return false;
}

/* ---- all of them -------------------------------------------------------------------------- */

static void explore(struct model m)
{
	if (!is_new(&m))
		return;
	struct model next = m;
	bool over = true;

	if (m.depth) {
		step_thread(&next);
		explore(next);
		over = false;
	}
	if (m.made < HITS && m.depth < LEVELS) { /* another hit: of the thread, or of a handler right here */
		next = m;
		next.depth++;
		next.made++;
		explore(next);
		over = false;
	}
	next = m;
	if (step_reader(&next)) {
		explore(next);
		over = false;
	}
	if (over) {
		ends++;
		assert_int_equal(m.read + m.lost, HITS); /* B7 */
	}
}

static void test_every_interleaving(void **unused)
{
	table = calloc(TABLE, sizeof(*table));
	explore((struct model){ 0 });
	assert_true(seen_count > 1000 && ends > 10);
	print_message("%zu states, %zu ends\n", seen_count, ends);
	free(table);
	free(seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_interleaving),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
