#include "use_table.h"

#include <assert.h>
#include <stdlib.h>

#define ROOM_FIRST 256u /* a power of two */

/* The function's own place, or the free one where it belongs. */
static struct use *place_of(const struct use_table *table, uint64_t address)
{
	size_t i = (size_t)(address * 0x9e3779b97f4a7c15ULL >> 32) & (table->room - 1);

	while (table->items[i].address && table->items[i].address != address)
		i = (i + 1) & (table->room - 1);
	return &table->items[i];
}

const struct use *use_table_find(const struct use_table *table, uint64_t address)
{
	const struct use *use = table->room ? place_of(table, address) : NULL;

	return use && use->address ? use : NULL;
}

static bool grow(struct use_table *table)
{
	struct use_table wider = { .count = table->count,
				   .room = table->room ? table->room * 2 : ROOM_FIRST };

	wider.items = calloc(wider.room, sizeof(*wider.items));
	if (!wider.items)
		return false;
	for (size_t i = 0; i < table->room; i++) {
		if (table->items[i].address)
			*place_of(&wider, table->items[i].address) = table->items[i];
	}
	free(table->items);
	*table = wider;
	return true;
}

void use_table_add(struct use_table *table, const struct use *use)
{
	assert(use->address && !use_table_find(table, use->address));
	if (table->count * 2 >= table->room && !grow(table))
		return;
	*place_of(table, use->address) = *use;
	table->count++;
}

void use_table_free(struct use_table *table)
{
	free(table->items);
	*table = (struct use_table){ 0 };
}
