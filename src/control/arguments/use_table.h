/* use_table.h - uses of functions by address. */
#ifndef DYNTRACE_USE_TABLE_H
#define DYNTRACE_USE_TABLE_H

#include "use_search.h"

struct use_table {
	struct use *items; /* address 0, where no function is: a free one */
	size_t count, room;
};

/* NULL: it isn't there. */
const struct use *use_table_find(const struct use_table *table, uint64_t address);
/* Out of memory: it isn't remembered. */
void use_table_add(struct use_table *table, const struct use *use);
void use_table_free(struct use_table *table);

#endif
