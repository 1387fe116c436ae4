#include "agent_rows.h"

#include "target/row_cache.h"

struct dt_unwind_row agent_row_of(uint64_t *rows, uint64_t turn, const struct dt_unwind *table,
				  uint64_t key)
{
	struct row_cache cache = { .rows = rows, .turn = turn, .table = table };

	return row_cache_find(&cache, key);
}
