#include "pool_layout.h"

void pool_layout(uint64_t size, uint32_t *ret_small, uint32_t *ret_big, uint64_t *ret_total)
{
	uint64_t big = size / 4 * 3 / DT_CHUNK_BIG;
	uint64_t small = (size - big * DT_CHUNK_BIG) / DT_CHUNK_SMALL;

	/* Offsets in the pool are 32 bits: the largest size leaves room for the tables. */
	while (big && dt_chunks_offset(small + big) + small * DT_CHUNK_SMALL + big * DT_CHUNK_BIG > DT_POOL_MAX)
		big--;
	*ret_small = (uint32_t)small;
	*ret_big = (uint32_t)big;
	*ret_total = dt_chunks_offset(small + big) + small * DT_CHUNK_SMALL + big * DT_CHUNK_BIG;
}
