#include "pool_layout.h"

#include "shared/layout.h"

uint64_t pool_layout_size(uint32_t small, uint32_t big)
{
	return DT_ROUND_UP(
		dt_chunk_offset(dt_chunks_offset((uint64_t)small + big), small, small + big),
		DT_PAGE);
}

void pool_layout(uint64_t size, bool is_ring, uint32_t *ret_small, uint32_t *ret_big)
{
	uint32_t small = (uint32_t)(size / (is_ring ? 4 : 2) / DT_CHUNK_SMALL);
	uint32_t big = (uint32_t)((size - (uint64_t)small * DT_CHUNK_SMALL) / DT_CHUNK_BIG);

	while (big && pool_layout_size(small, big) > DT_POOL_MAX)
		big--;
	*ret_small = small;
	*ret_big = big;
}
