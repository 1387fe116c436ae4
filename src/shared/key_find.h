/*
 * key_find.h - find a key's index in a table, or give it one (keys.h, A2 to A4).
 *
 * For the agent, and for a controller that adds keys of a dead one while the target adds its own.
 * Lock-free; may be interrupted at any instruction. The table's shape comes from the caller: the
 * controller trusts its own, and nothing that it finds in the table leads out of it.
 */
#ifndef DYNTRACE_KEY_FIND_H
#define DYNTRACE_KEY_FIND_H

#include <stdbool.h>

#include "keys.h"

struct dt_key_shape {
	uint32_t bits, capacity, size; /* as in struct dt_key_table */
};

static inline struct dt_key *dt_key_in(struct dt_key_table *table, struct dt_key_shape shape,
				       uint32_t index)
{
	return (struct dt_key *)((uint8_t *)table + dt_keys_offset(shape.bits)) + index;
}

/* (A2) */
static inline bool dt_key_claim(struct dt_key_slot *slot, uint64_t key, uint64_t index)
{
	uint64_t low = 0, high = 0;
	bool mine;

	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(mine), "+m"(*slot), "+a"(low), "+d"(high)
			 : "b"(key), "c"(index)
			 : "memory");
	return mine;
}

/* Copies a text behind the others. 0: no room. */
static inline uint32_t dt_key_copy(struct dt_key_table *table, struct dt_key_shape shape,
				   const uint8_t *bytes, uint32_t size)
{
	uint32_t room = (uint32_t)DT_ROUND_UP(size, 8);
	uint32_t at = __atomic_load_n(&table->texts, __ATOMIC_RELAXED);

	do {
		if (at > shape.size || room > shape.size - at)
			return 0;
	} while (!__atomic_compare_exchange_n(&table->texts, &at, at + room, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	for (uint32_t i = 0; i < size; i++)
		((uint8_t *)table)[at + i] = bytes[i];
	return at;
}

/* (A3) Fills in a new index. 0: no room is left. */
static inline uint32_t dt_key_add(struct dt_key_table *table, struct dt_key_shape shape,
				  uint64_t key, const uint8_t *bytes, uint32_t size)
{
	uint32_t index = 0, text = 0;

	if (!__atomic_load_n(&table->full, __ATOMIC_RELAXED)) {
		text = size ? dt_key_copy(table, shape, bytes, size) : 0;
		if (text || !size)
			index = __atomic_fetch_add(&table->used, 1, __ATOMIC_RELAXED);
	}
	if (!index || index >= shape.capacity) {
		__atomic_store_n(&table->full, 1, __ATOMIC_RELAXED);
		return 0;
	}
	*dt_key_in(table, shape, index) =
		(struct dt_key){ .number = key, .text = text, .size = size };
	return index;
}

/* Texts are compared whole: two may have the same hash. */
static inline bool dt_key_is(struct dt_key_table *table, struct dt_key_shape shape, uint64_t index,
			     const uint8_t *bytes, uint32_t size)
{
	const struct dt_key *key = dt_key_in(table, shape, (uint32_t)index);

	if (index >= shape.capacity || __atomic_load_n(&key->size, __ATOMIC_RELAXED) != size)
		return false;
	uint32_t text = __atomic_load_n(&key->text, __ATOMIC_RELAXED);
	if (text > shape.size || size > shape.size - text)
		return false;
	for (uint32_t i = 0; i < size; i++) {
		if (((const uint8_t *)table)[text + i] != bytes[i])
			return false;
	}
	return true;
}

/* `key` is a number and `size` 0, or `key` is the hash of the text. DT_KEY_OTHER: no room. */
static inline uint32_t dt_key_find(struct dt_key_table *table, struct dt_key_shape shape,
				   uint64_t key, const uint8_t *bytes, uint32_t size)
{
	uint32_t mask = (1u << shape.bits) - 1, at = dt_key_place(key, shape.bits), index = 0;

	for (uint32_t tries = 0; tries <= mask; tries++, at = (at + 1) & mask) {
		struct dt_key_slot *slot = &table->slots[at];
		uint64_t found = __atomic_load_n(&slot->index, __ATOMIC_ACQUIRE);

		if (!found && !index)
			index = dt_key_add(table, shape, key, bytes, size);
		if (!found && !index)
			return DT_KEY_OTHER;
		if (!found && dt_key_claim(slot, key, index))
			return index;
		if (!found)
			found = __atomic_load_n(&slot->index, __ATOMIC_ACQUIRE);
		if (slot->key == key && dt_key_is(table, shape, found, bytes, size))
			return (uint32_t)found;
	}
	return DT_KEY_OTHER;
}

#endif
