/*
 * key.c - find a key's index, or give it one (src/shared/key_find.h).
 */
#include "gather.h"

#include "shared/key_find.h"

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
	uint64_t hash = dt_bytes_hash(bytes, size);

	return size ? key_find((struct dt_key_table *)table, hash, bytes, size) : DT_KEY_OTHER;
}
