/*
 * count_keys.h - counts by key (shared/keys.h): the memory of one tracepoint's keys and their
 * cells, and what is in it.
 *
 * The target can write all of it: sums are only shown, and indices, places and sizes are checked.
 */
#ifndef DYNTRACE_COUNT_KEYS_H
#define DYNTRACE_COUNT_KEYS_H

#include "control/record/distribution.h"
#include "counts.h"

struct tracepoint;

/* Of one tracepoint; all 0: it has no keys. */
struct count_keys {
	uint32_t capacity; /* the row of other keys included */
	uint8_t bits;
	uint32_t stride, table_size;
	uint64_t table; /* offset of the table in the first row; the cells are where the cell is */
	enum tramp_value value;
	uint64_t question; /* hash of what its keys and values are */
	bool takes; /* for reading: takes the counts away, so that they begin at 0 again */
	uint64_t frequency; /* for reading: values are times; cycles per second; 0: they aren't */
};

/* The layout for a tracepoint whose description is complete. */
struct count_keys count_keys_of(const struct tracepoint *tracepoint);
/* Bytes of a row that they take. */
uint64_t count_keys_bytes(const struct count_keys *keys);

/* Makes the empty table, in the bytes that were taken at `cell`, and moves `cell` to the cells. */
void count_keys_start(struct counts *counts, struct count_keys *keys, struct counts_cell *cell);
/* The trampoline's way to them. */
void count_keys_way(const struct counts *counts, const struct counts_cell *cell,
		    const struct count_keys *keys, struct tramp_keys *ret_way);

/* What was counted for one key, over all rows. */
struct count_key {
	uint32_t index; /* 0: other keys */
	uint64_t number;
	const uint8_t *text; /* NULL: the key is the number */
	uint32_t size;
	uint64_t hits;
	/* of values: durations and self times in cycles, but for the distribution's histogram,
	 * which is in ns */
	uint64_t total; /* of durations: with a call on the stack */
	uint64_t inside;
	struct distribution values;
};

/* Calls `found` for each key with hits, the row of other keys last, until it returns false; it may
 * take the distribution, and set it to zero. False: `found` did, or out of memory. */
bool count_keys_each(const struct counts *counts, const struct counts_cell *cell,
		     const struct count_keys *keys,
		     bool (*found)(void *context, struct count_key *key), void *context);
/* The hits and values of all keys. */
void count_keys_sum(const struct counts *counts, const struct counts_cell *cell,
		    const struct count_keys *keys, struct counts_sum *ret_sum);

#endif
