/*
 * pool.h - the controller's view of the pool: addresses of its parts, by the controller's own
 * layout.
 *
 * The target can write all of it, at any time: nothing read from it is trusted. Functions that read
 * give copies.
 */
#ifndef DYNTRACE_POOL_H
#define DYNTRACE_POOL_H

#include <stdbool.h>
#include <time.h>

#include "shared/layout.h"

struct pool {
	struct dt_pool *base;
	uint32_t small_count;
	uint32_t chunk_count;
	uint64_t *words;
	struct dt_chunk *descs;
	uint64_t chunks_offset;
	uint32_t untold; /* chunks that were freed since pool_tell_room */
};

/* Do that many chunks fit into a pool of `size` bytes? */
bool pool_fits(uint64_t size, uint32_t small_count, uint32_t big_count);
/* Sets up a view. False: they don't fit. */
bool pool_view(struct dt_pool *base, uint64_t size, uint32_t small_count, uint32_t big_count,
	       struct pool *ret_pool);

static inline uint64_t pool_word(const struct pool *pool, uint32_t index)
{
	return __atomic_load_n(&pool->words[index], __ATOMIC_ACQUIRE);
}

static inline uint32_t pool_chunk_size(const struct pool *pool, uint32_t index)
{
	return dt_chunk_size(pool->small_count, index);
}

static inline void *pool_chunk(const struct pool *pool, uint32_t index)
{
	return (char *)pool->base + dt_chunk_offset(pool->chunks_offset, pool->small_count, index);
}

void pool_desc(const struct pool *pool, uint32_t index, struct dt_chunk *ret_desc);
void pool_thread(const struct pool *pool, uint32_t index, struct dt_thread *ret_thread);
/* Zeroes `used` bytes and gives the chunk back: its events are in the trace, or counted. */
void pool_free_chunk(struct pool *pool, uint32_t index, uint32_t used);
/*
 * Sleeps until several chunks have been published since `wake` was `seen` (B11), until something
 * else wakes the controller, the time has passed (NULL: no limit), or a signal came.
 */
void pool_wait(struct dt_pool *base, uint32_t seen, const struct timespec *timeout);
/* Tells threads that wait for room to look again (B8), if chunks were freed. pool_free_chunk tells
 * some threads by itself; call this when nothing more is freed for now. */
void pool_tell_room(struct pool *pool);
void pool_free_thread(const struct pool *pool, uint32_t index);

#endif
