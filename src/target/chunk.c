/*
 * chunk.c - the thread's chunk: take one, publish it. Signals are blocked (see agent_parts.h).
 *
 * Words of the pool are only compared, swapped or passed on as numbers: the thread's chunk and its
 * place come from the slot and from dt_control.
 */
#include "agent_parts.h"

#include "shared/program.h"

/* A step back of the clock up to this (about a millisecond) is waited for. */
#define CHUNK_STEP_BACK (1ULL << 22)
#define CHUNK_STEP_SPINS 100000u
#define CHUNK_TELL_MASK 15 /* every 16th */

static uint64_t *chunk_words(const struct dt_control *control)
{
	return (uint64_t *)(control->pool + dt_words_offset());
}

static struct dt_chunk *chunk_desc(const struct dt_control *control, uint32_t index)
{
	uint64_t chunks = (uint64_t)control->small_count + control->big_count;

	return (struct dt_chunk *)(control->pool + dt_descs_offset(chunks)) + index;
}

static uint32_t chunk_start(const struct dt_control *control, uint32_t index)
{
	return (uint32_t)dt_chunk_offset(control->chunks_offset, control->small_count, index);
}

bool chunk_has_room(const struct dt_slot *slot, uint32_t size)
{
	uint64_t end = (uint64_t)(uint32_t)slot->reserve + size;

	return end <= slot->limit && !((sys_clock() - slot->last) >> DT_CLOCK_GAP_SHIFT);
}

bool chunk_is_held(const struct dt_control *control, const struct dt_slot *slot)
{
	uint64_t word = __atomic_load_n(&chunk_words(control)[slot->chunk], __ATOMIC_RELAXED);

	return word == DT_CHUNK_WORD((uint32_t)(slot->reserve >> 32), slot->thread, DT_CHUNK_OWNED);
}

static void chunk_raise(const struct dt_control *control, uint32_t by)
{
	struct dt_pool *pool = agent_pool(control);
	uint32_t now = __atomic_add_fetch(&pool->wake, by, __ATOMIC_SEQ_CST);

	/* Pairs with pool_wait: it sets `wake_at` and `waiting`, then looks at `wake` again. */
	if (!agent_is_quiet(control) && __atomic_load_n(&pool->waiting, __ATOMIC_SEQ_CST) &&
	    (int32_t)(now - __atomic_load_n(&pool->wake_at, __ATOMIC_SEQ_CST)) >= 0 &&
	    __atomic_exchange_n(&pool->waiting, 0, __ATOMIC_SEQ_CST))
		sys_futex_wake(&pool->wake);
}

void chunk_wake(const struct dt_control *control)
{
	chunk_raise(control, DT_WAKE_CHUNKS);
}

/* (Q4) */
static void chunk_close(struct dt_slot *slot)
{
	__atomic_store_n(&slot->limit, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Clears the slot's chunk: from here on the cmpxchg of an interrupted hit fails (B2). */
void chunk_forget(struct dt_slot *slot)
{
	chunk_close(slot);
	slot->reserve = 0;
	slot->events_published = slot->events;
}

static void chunk_describe(const struct dt_control *control, const struct dt_slot *slot)
{
	struct dt_chunk *desc = chunk_desc(control, slot->chunk);
	uint64_t now = sys_clock();

	desc->end = now > slot->last ? now : slot->last; /* B5 */
	desc->used = (uint32_t)slot->reserve - chunk_start(control, slot->chunk);
	desc->count = slot->events - slot->events_published;
}

/*
 * A living owner fills in the descriptor and publishes in one step, since the controller takes no
 * chunk from a living thread. For a dead owner's chunk the controller is a rival: CLOSING claims it
 * first.
 */
void chunk_publish(const struct dt_control *control, struct dt_slot *slot, bool dead)
{
	if (!slot->limit)
		return;
	uint64_t *word = &chunk_words(control)[slot->chunk];
	uint32_t generation = (uint32_t)(slot->reserve >> 32);
	uint64_t held = DT_CHUNK_WORD(generation, slot->thread, DT_CHUNK_OWNED);
	uint64_t closing = DT_CHUNK_WORD(generation, slot->thread, DT_CHUNK_CLOSING);
	uint64_t published = DT_CHUNK_WORD(generation, slot->thread, DT_CHUNK_PUBLISHED);

	if (dead) {
		if (!__atomic_compare_exchange_n(word, &held, closing, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED)) {
			chunk_forget(slot);
			return;
		}
		held = closing;
	}
	chunk_close(slot);
	chunk_describe(control, slot);
	bool done = __atomic_compare_exchange_n(word, &held, published, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED); /* B1 */
	chunk_forget(slot);
	if (done)
		chunk_raise(control, 1); /* B11 */
}

/* ---- free chunks -------------------------------------------------------------------------- */

/* Size of the event at `words`, within `room` bytes; 0: it isn't complete. */
static uint32_t chunk_event_size(const struct dt_control *control, const uint64_t *words,
				 uint32_t room)
{
	uint64_t header = __atomic_load_n(words, __ATOMIC_ACQUIRE);
	uint32_t id = header & (DT_EVENT_PENDING | DT_EVENT_ID_MASK);
	uint64_t size = id < DT_EVENTS_MAX ? control->sizes[id] : 0;

	if (!header || !size)
		return 0;
	if (size == DT_SIZE_VARIES)
		size = room >= 16 ? dt_event_span(words[1]) : 0;
	return size <= room && !(size & 7) ? (uint32_t)size : 0;
}

/* (B9) Is every event of a published chunk complete? A signal may have interrupted a hit. */
static bool chunk_is_complete(const struct dt_control *control, uint32_t index)
{
	const struct dt_chunk *desc = chunk_desc(control, index);
	const char *start = (const char *)control->pool + chunk_start(control, index);
	uint32_t used = __atomic_load_n(&desc->used, __ATOMIC_RELAXED), size;

	if (used > dt_chunk_size(control->small_count, index))
		return false;
	for (uint32_t at = 0; at < used; at += size) {
		size = chunk_event_size(control, (const uint64_t *)(start + at), used - at);
		if (!size)
			return false;
	}
	return true;
}

static bool chunk_may_claim(const struct dt_control *control, uint32_t index, uint64_t word)
{
	if (DT_CHUNK_STATE(word) == DT_CHUNK_FREE)
		return true;
	return (control->flags & DT_OVERWRITE) && DT_CHUNK_STATE(word) == DT_CHUNK_PUBLISHED &&
	       chunk_is_complete(control, index);
}

/* (B9) Zeroes a chunk that was just claimed, and counts its events as overwritten. */
static void chunk_wipe(const struct dt_control *control, uint32_t index)
{
	struct dt_chunk *desc = chunk_desc(control, index);
	volatile uint64_t *words = (uint64_t *)(control->pool + chunk_start(control, index));
	uint32_t size = dt_chunk_size(control->small_count, index);
	uint32_t used = desc->used < size ? desc->used : size;

	__atomic_fetch_add(&agent_pool(control)->overwritten, desc->count, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < used / 8; i++)
		words[i] = 0; /* B4 */
}

/* Many threads that hit once and end leave many chunks, which only the controller can take: wake it
 * before they run out. And with the last one: published chunks may be fewer than those for which it
 * is woken (B11). */
static void chunk_count_out(const struct dt_control *control, uint32_t index)
{
	bool small = index < control->small_count;
	struct dt_pool *pool = agent_pool(control);
	int32_t left = __atomic_sub_fetch(small ? &pool->small_free : &pool->big_free, 1,
					  __ATOMIC_RELAXED);
	int32_t few = small ? (int32_t)control->small_count / 2 : 1;

	if (left < few && !(left & CHUNK_TELL_MASK))
		chunk_wake(control);
}

static bool chunk_try_claim(const struct dt_control *control, uint32_t index, uint32_t thread,
			    uint32_t *ret_generation)
{
	uint64_t *word = &chunk_words(control)[index];
	uint64_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	uint32_t generation = DT_CHUNK_GENERATION(old) + 1;
	uint64_t owned = DT_CHUNK_WORD(generation, thread, DT_CHUNK_OWNED);
	bool fresh = DT_CHUNK_STATE(old) == DT_CHUNK_FREE;
	uint64_t next = fresh ? owned : DT_CHUNK_WORD(generation, thread, DT_CHUNK_WIPING);

	if (!chunk_may_claim(control, index, old) ||
	    !__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	if (!fresh) {
		chunk_wipe(control, index);
		__atomic_store_n(word, owned, __ATOMIC_RELEASE);
	} else {
		chunk_count_out(control, index);
	}
	*ret_generation = generation;
	return true;
}

/* Claims one chunk of that size, searching from the hint on. */
static bool chunk_claim(const struct dt_control *control, uint32_t thread, bool big,
			uint32_t *ret_index, uint32_t *ret_generation)
{
	struct dt_pool *pool = agent_pool(control);
	uint32_t first = big ? control->small_count : 0;
	uint32_t count = big ? control->big_count : control->small_count;
	uint32_t *hint = big ? &pool->big_hint : &pool->small_hint;
	const int32_t *spare = big ? &pool->big_free : &pool->small_free;

	if (!count ||
	    (!(control->flags & DT_OVERWRITE) && __atomic_load_n(spare, __ATOMIC_RELAXED) <= 0))
		return false;
	bool ring = control->flags & DT_OVERWRITE;
	uint32_t at = __atomic_load_n(hint, __ATOMIC_RELAXED) % count;
	for (uint32_t tries = 0; tries < count; tries++, at = at + 1 < count ? at + 1 : 0) {
		if (ring)
			at = __atomic_fetch_add(hint, 1, __ATOMIC_RELAXED) % count; /* B9 */
		if (!chunk_try_claim(control, first + at, thread, ret_generation))
			continue;
		if (!ring)
			__atomic_store_n(hint, at + 1, __ATOMIC_RELAXED);
		*ret_index = first + at;
		return true;
	}
	return false;
}

static bool chunk_take(const struct dt_control *control, struct dt_slot *slot)
{
	struct dt_thread *record = &agent_pool(control)->threads[slot->thread];
	bool big = slot->flags & DT_SLOT_GROWN;
	uint32_t index, generation;

	if (!chunk_claim(control, slot->thread, big, &index, &generation) &&
	    !chunk_claim(control, slot->thread, !big, &index, &generation))
		return false;
	uint64_t begin = sys_clock();
	uint32_t sequence = record->chunks;
	struct dt_chunk *desc = chunk_desc(control, index);
	desc->begin = begin;
	desc->end = 0;
	desc->lost = __atomic_load_n(&record->lost, __ATOMIC_RELAXED);
	desc->sequence = sequence;
	desc->used = 0;
	desc->count = 0;
	record->chunks = sequence + 1;

	uint32_t start = chunk_start(control, index);
	slot->last = begin;
	slot->flags |= DT_SLOT_GROWN;
	slot->chunk = index;
	slot->reserve = (uint64_t)generation << 32 | start;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&slot->limit, start + dt_chunk_size(control->small_count, index),
			 __ATOMIC_RELAXED); /* last: Q4 */
	return true;
}

/* Waits while the clock (another CPU's) is a little behind the last event. */
static void chunk_wait_for_clock(const struct dt_slot *slot)
{
	for (uint32_t spins = 0; spins < CHUNK_STEP_SPINS; spins++) {
		uint64_t behind = slot->last - sys_clock();

		if (!behind || behind > CHUNK_STEP_BACK)
			return;
		sys_pause();
	}
}

bool chunk_prepare(const struct dt_control *control, struct dt_slot *slot, uint32_t size)
{
	if (size > DT_EVENT_SIZE_MAX)
		return false;
	if (slot->limit) {
		chunk_wait_for_clock(slot);
		if (chunk_has_room(slot, size))
			return true;
		chunk_publish(control, slot, false);
	}
	if (chunk_take(control, slot))
		return true;
	chunk_wake(control); /* B11 */
	return false;
}
