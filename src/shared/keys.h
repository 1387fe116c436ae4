/*
 * keys.h - counts by key: which keys a tracepoint has seen, in memory that the target, its children
 * and the controller share (a share, as the cells: layout.h). A change here raises
 * DT_LAYOUT_VERSION.
 *
 * A key has an index, which is the place of its cells. Index 0 is the row of all other keys: of
 * those for which no room was left, and of hits whose key the agent could not find out.
 *
 * (A2) Keys are only added. A slot changes once, from empty to its key and index, by one
 *      compare-and-swap of both: whoever finds a slot's key finds its index, and no thread waits
 *      for another one, which may have been killed.
 * (A3) A struct dt_key is complete before a slot names its index. Two threads that add the same key
 *      at once take two indices; the later one stays unused.
 * (A4) A hit is counted under one index, whatever happens: so the sum over all is exact.
 */
#ifndef DYNTRACE_KEYS_H
#define DYNTRACE_KEYS_H

#include <stdint.h>

#include "layout.h"

#define DT_KEYS_MAX (1u << 20) /* keys of one tracepoint, the row of the others included */
#define DT_KEY_OTHER 0u
/* 32 steps between a power of two and the next, for cells of keys */
#define DT_KEY_BUCKET_BITS 5
#define DT_KEY_BUCKETS ((64u - DT_KEY_BUCKET_BITS + 1u) << DT_KEY_BUCKET_BITS)

struct dt_key_slot {
	uint64_t key; /* a number, or the hash of a text */
	uint64_t index; /* 0: empty */
};

struct dt_key {
	uint64_t number; /* or the hash */
	uint32_t text, size; /* of a text: its place in the table, its bytes */
};

/* In memory: this, then 1 << bits slots, then `capacity` keys, then texts. */
struct dt_key_table {
	uint32_t bits;
	uint32_t capacity; /* indices are below it */
	uint32_t used; /* indices handed out; more than `capacity`: none are left */
	uint32_t full; /* no more keys are added */
	uint32_t size; /* of the table, with its texts */
	uint32_t texts; /* bytes used up to, texts included */
	/* for a controller that takes over: */
	uint32_t stride; /* bytes from the cell of an index to that of the next */
	uint32_t value; /* enum tramp_value: what is in the cells */
	uint64_t question; /* hash of the words that say what a key is */
	uint64_t pad[3];
	struct dt_key_slot slots[] __attribute__((aligned(64)));
};

/* The first slot to look at; trampolines compute the same. */
#define DT_KEY_MULTIPLIER 0x9e3779b97f4a7c15ULL
static inline uint32_t dt_key_place(uint64_t key, uint32_t bits)
{
	return (uint32_t)((key * DT_KEY_MULTIPLIER) >> (64 - bits));
}

/* The hash of a text, a word at a time: no product waits for another one. */
static inline uint64_t dt_key_mix(uint64_t hash, uint64_t word, uint32_t at)
{
	return hash + (word ^ at * DT_KEY_MULTIPLIER) * (DT_KEY_MULTIPLIER + 2 * at);
}

/* The last word has the bytes that are left, down to none. */
static inline uint64_t dt_key_hash(const uint8_t *bytes, uint32_t size)
{
	uint64_t hash = size, word = 0;

	for (uint32_t i = 0; i < size; i++) {
		word |= (uint64_t)bytes[i] << 8 * (i % 8);
		if (i % 8 == 7) {
			hash = dt_key_mix(hash, word, i / 8);
			word = 0;
		}
	}
	return dt_key_mix(hash, word, size / 8);
}

static inline uint32_t dt_keys_offset(uint32_t bits)
{
	return (uint32_t)(sizeof(struct dt_key_table) +
			  ((uint64_t)sizeof(struct dt_key_slot) << bits));
}

static inline struct dt_key *dt_key_at(struct dt_key_table *table, uint32_t index)
{
	return (struct dt_key *)((uint8_t *)table + dt_keys_offset(table->bits)) + index;
}

/*
 * A key's cell if values are summed up; without values, it is one word, hits. Of durations, the
 * words are those of struct dt_cell, and half of the buckets are there. Other values have a sign:
 * total is their sum, max the largest one ^ DT_KEY_SIGN, pending the complement of the smallest one
 * ^ DT_KEY_SIGN; the second half of the buckets is for values below 0, by their magnitude.
 */
#define DT_KEY_SIGN (1ULL << 63)
struct dt_key_cell {
	uint64_t hits, total, again, inside, max, pending;
	uint64_t buckets[2 * DT_KEY_BUCKETS];
};
_Static_assert(offsetof(struct dt_key_cell, pending) == offsetof(struct dt_cell, pending) &&
		       offsetof(struct dt_key_cell, buckets) == offsetof(struct dt_cell, buckets),
	       "trampolines use either");

#endif
