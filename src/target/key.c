/*
 * key.c - find a key's index, or give it one (src/shared/keys.h, A2 to A4).
 */
#include "gather.h"

#include "shared/keys.h"

/* (A2) */
static bool key_claim(struct dt_key_slot *slot, uint64_t key, uint64_t index)
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
static uint32_t key_copy(struct dt_key_table *table, const uint8_t *bytes, uint32_t size)
{
	uint32_t room = (uint32_t)DT_ROUND_UP(size, 8);
	uint32_t at = __atomic_load_n(&table->texts, __ATOMIC_RELAXED);

	do {
		if (at > table->size || room > table->size - at)
			return 0;
	} while (!__atomic_compare_exchange_n(&table->texts, &at, at + room, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	for (uint32_t i = 0; i < size; i++)
		((uint8_t *)table)[at + i] = bytes[i];
	return at;
}

/* (A3) Fills in a new index. 0: no room is left. */
static uint32_t key_add(struct dt_key_table *table, uint64_t key, const uint8_t *bytes,
			uint32_t size)
{
	uint32_t index = 0, text = 0;

	if (!__atomic_load_n(&table->full, __ATOMIC_RELAXED)) {
		text = size ? key_copy(table, bytes, size) : 0;
		if (text || !size)
			index = __atomic_fetch_add(&table->used, 1, __ATOMIC_RELAXED);
	}
	if (!index || index >= table->capacity) {
		__atomic_store_n(&table->full, 1, __ATOMIC_RELAXED);
		return 0;
	}
	*dt_key_at(table, index) = (struct dt_key){ .number = key, .text = text, .size = size };
	return index;
}

/* Texts are compared whole: two may have the same hash. */
static bool key_is(struct dt_key_table *table, uint64_t index, const uint8_t *bytes, uint32_t size)
{
	const struct dt_key *key = dt_key_at(table, (uint32_t)index);

	if (index >= table->capacity || key->size != size)
		return false;
	for (uint32_t i = 0; i < size; i++) {
		if (((const uint8_t *)table)[key->text + i] != bytes[i])
			return false;
	}
	return true;
}

static uint32_t key_find(struct dt_key_table *table, uint64_t key, const uint8_t *bytes,
			 uint32_t size)
{
	uint32_t mask = (1u << table->bits) - 1, at = dt_key_place(key, table->bits), index = 0;

	for (uint32_t tries = 0; tries <= mask; tries++, at = (at + 1) & mask) {
		struct dt_key_slot *slot = &table->slots[at];
		uint64_t found = __atomic_load_n(&slot->index, __ATOMIC_ACQUIRE);

		if (!found && !index)
			index = key_add(table, key, bytes, size);
		if (!found && !index)
			return DT_KEY_OTHER;
		if (!found && key_claim(slot, key, index))
			return index;
		if (!found)
			found = __atomic_load_n(&slot->index, __ATOMIC_ACQUIRE);
		if (slot->key == key && key_is(table, found, bytes, size))
			return (uint32_t)found;
	}
	return DT_KEY_OTHER;
}

uint32_t key_of_number(uint64_t table, uint64_t number)
{
	return key_find((struct dt_key_table *)table, number, NULL, 0);
}

uint32_t key_of_text(uint64_t table, const uint8_t *bytes, uint32_t size)
{
	uint64_t hash = dt_bytes_hash(bytes, size);

	return size ? key_find((struct dt_key_table *)table, hash, bytes, size) : DT_KEY_OTHER;
}
