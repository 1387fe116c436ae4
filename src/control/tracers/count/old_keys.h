/*
 * old_keys.h - counts by key that a dead controller's tracepoint kept in the target.
 *
 * Read when nothing counts any more, and added to a tracepoint that asks the same question. The
 * target can write all of it: sizes are checked, and counts are only shown.
 */
#ifndef DYNTRACE_OLD_KEYS_H
#define DYNTRACE_OLD_KEYS_H

#include "control/proc/proc.h"
#include "count_keys.h"

/* A word of a key's cell that isn't 0. */
struct old_word {
	uint32_t at; /* its number in the cell */
	uint64_t value;
};

struct old_key {
	uint64_t number;
	uint8_t *text; /* NULL: the key is the number; owned */
	uint32_t size;
	bool is_other; /* the row of all other keys */
	VEC(struct old_word) words;
};

struct old_keys {
	uint64_t question; /* keys of another question are none of ours */
	uint32_t stride, value;
	VEC(struct old_key) items;
};

/* Sums up what a tracepoint with a table of keys has counted, over all rows. */
struct error *old_keys_collect(struct proc *proc, const struct dt_counted *from,
			       struct old_keys *ret_keys);
/* Adds it to a tracepoint of ours, to which the target may be adding as well. Keys for which no
 * room is left go to the row of the others. Nothing, if it asks another question. */
void old_keys_add(struct counts *counts, const struct counts_cell *cell,
		  const struct count_keys *keys, const struct old_keys *old);
void old_keys_free(struct old_keys *keys);

#endif
