/*
 * key.c - find a key's index, or give it one (src/shared/key_find.h).
 */
#include "gather.h"

#include "shared/key_find.h"

/* As DT_READ_KEY of shared/reads.h wants it: a function of the C ABI. */
__attribute__((visibility("default"))) uint32_t dt_read_key(const struct dt_key_table *table,
							    const uint64_t *image, uint32_t size);

static uint32_t key_find(struct dt_key_table *table, uint64_t key, const uint8_t *bytes,
			 uint32_t size)
{
	struct dt_key_shape shape = { table->bits, table->capacity, table->size };

	return dt_key_find(table, shape, key, bytes, size);
}

uint32_t key_of_number(uint64_t table, uint64_t number)
{
	return key_find((struct dt_key_table *)table, number, NULL, 0);
}

uint32_t key_of_text(uint64_t table, const uint8_t *bytes, uint32_t size)
{
	uint64_t hash = dt_key_hash(bytes, size);

	return size ? key_find((struct dt_key_table *)table, hash, bytes, size) : DT_KEY_OTHER;
}

/* Like dt_key_is, by words: texts begin at multiples of 8, and are 0 behind their ends. */
static inline bool is_key(const struct dt_key_table *table, const struct dt_key *key,
			  const uint64_t *image, uint64_t tail, uint32_t size)
{
	uint32_t at = key->text, room = table->size, i;

	if (key->size != size || at % 8 || at > room || size + 8 > room - at)
		return false;
	const uint64_t *text = (const uint64_t *)((const uint8_t *)table + at);
	for (i = 0; i < size / 8; i++) {
		if (text[i] != image[i])
			return false;
	}
	return !(size % 8) || text[i] == tail;
}

uint32_t dt_read_key(const struct dt_key_table *table, const uint64_t *image, uint32_t size)
{
	uint32_t bits = table->bits, at = size / 8;
	uint64_t tail = image[at] & ((1ULL << 8 * (size % 8)) - 1), hash = size;

	for (uint32_t i = 0; i < at; i++)
		hash = dt_key_mix(hash, image[i], i);
	hash = dt_key_mix(hash, tail, at);
	at = dt_key_place(hash, bits);
	for (uint32_t tries = 0; tries >> bits == 0; tries++, at++) {
		const struct dt_key_slot *slot = &table->slots[at & ((1u << bits) - 1)];
		uint64_t index = __atomic_load_n(&slot->index, __ATOMIC_ACQUIRE);
		const struct dt_key *keys =
			(const struct dt_key *)((const uint8_t *)table + dt_keys_offset(bits));

		if (!index)
			break;
		if (slot->key == hash && index < table->capacity &&
		    is_key(table, &keys[index], image, tail, size))
			return (uint32_t)index;
	}
	return DT_KEY_OTHER;
}
