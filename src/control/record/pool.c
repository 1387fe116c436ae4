#include "pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POOL_TELL_CHUNKS 16 /* that are freed before threads are told */
#define POOL_WAKE_PART 32 /* of all chunks, at most, is published before we are woken (B11) */

bool pool_fits(uint64_t size, uint32_t small_count, uint32_t big_count)
{
	uint64_t chunks = (uint64_t)small_count + big_count;

	return chunks && chunks <= UINT32_MAX &&
	       dt_chunks_offset(chunks) + (uint64_t)small_count * DT_CHUNK_SMALL +
			       (uint64_t)big_count * DT_CHUNK_BIG <=
		       size;
}

bool pool_view(struct dt_pool *base, uint64_t size, uint32_t small_count, uint32_t big_count,
	       struct pool *ret_pool)
{
	uint64_t chunks = (uint64_t)small_count + big_count;

	if (!pool_fits(size, small_count, big_count))
		return false;
	*ret_pool = (struct pool){
		.base = base,
		.small_count = small_count,
		.chunk_count = (uint32_t)chunks,
		.words = (uint64_t *)((char *)base + dt_words_offset()),
		.descs = (struct dt_chunk *)((char *)base + dt_descs_offset(chunks)),
		.chunks_offset = dt_chunks_offset(chunks),
	};
	return true;
}

/* Volatile: keeps the compiler from reading a field twice and getting two answers. */
static void pool_copy(void *to, const volatile void *from, size_t words)
{
	for (size_t i = 0; i < words; i++)
		((uint64_t *)to)[i] = ((const volatile uint64_t *)from)[i];
}

void pool_desc(const struct pool *pool, uint32_t index, struct dt_chunk *ret_desc)
{
	assert(index < pool->chunk_count);
	pool_copy(ret_desc, &pool->descs[index], sizeof(*ret_desc) / 8);
}

void pool_thread(const struct pool *pool, uint32_t index, struct dt_thread *ret_thread)
{
	assert(index < DT_THREADS_MAX);
	pool_copy(ret_thread, &pool->base->threads[index], sizeof(*ret_thread) / 8);
}

void pool_wait(struct dt_pool *base, uint32_t seen, const struct timespec *timeout)
{
	uint32_t chunks = (base->small_count + base->big_count) / POOL_WAKE_PART;

	if (!chunks || chunks > DT_WAKE_CHUNKS)
		chunks = chunks ? DT_WAKE_CHUNKS : 1;
	/* Pairs with chunk_raise in the agent: it raises `wake`, then looks at `waiting`. */
	__atomic_store_n(&base->wake_at, seen + chunks, __ATOMIC_SEQ_CST);
	__atomic_store_n(&base->waiting, 1, __ATOMIC_SEQ_CST);
	/* Each turn has seen a chunk more: the number of turns is for a target that lies. */
	for (uint32_t turn = 0; turn < chunks; turn++) {
		uint32_t now = __atomic_load_n(&base->wake, __ATOMIC_SEQ_CST);

		if (now - seen >= chunks ||
		    !syscall(SYS_futex, &base->wake, FUTEX_WAIT, now, timeout, NULL, 0) ||
		    errno != EAGAIN)
			break;
	}
	__atomic_store_n(&base->waiting, 0, __ATOMIC_RELAXED);
}

/* Pairs with slow_wait in the agent, which sets `room_wanted`, then looks for room again. */
void pool_tell_room(struct pool *pool)
{
	struct dt_pool *base = pool->base;

	if (!pool->untold)
		return;
	pool->untold = 0;
	__atomic_store_n(&base->expired, 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&base->room, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&base->room_wanted, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&base->room_wanted, 0, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &base->room, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void pool_free_chunk(struct pool *pool, uint32_t index, uint32_t used)
{
	bool small = index < pool->small_count;
	uint32_t generation = DT_CHUNK_GENERATION(pool_word(pool, index));

	assert(index < pool->chunk_count && used <= pool_chunk_size(pool, index));
	/* If we are killed after this, the next controller doesn't take the zeroes for lost
	 * events. */
	__atomic_store_n(&pool->words[index], DT_CHUNK_WORD(generation, 0, DT_CHUNK_EMPTYING),
			 __ATOMIC_SEQ_CST); /* B1 */
	memset(pool_chunk(pool, index), 0, used); /* B4 */
	__atomic_store_n(&pool->words[index], DT_CHUNK_WORD(generation, 0, DT_CHUNK_FREE),
			 __ATOMIC_RELEASE);
	__atomic_fetch_add(small ? &pool->base->small_free : &pool->base->big_free, 1,
			   __ATOMIC_RELEASE);
	/* A thread that is woken for each chunk, fills it and waits again, costs more than it
	 * records. */
	if (++pool->untold >= POOL_TELL_CHUNKS)
		pool_tell_room(pool);
	/* The next thread that looks for a chunk takes this one: it is still in a cache. */
	__atomic_store_n(small ? &pool->base->small_hint : &pool->base->big_hint,
			 small ? index : index - pool->small_count, __ATOMIC_RELAXED);
}

void pool_free_thread(const struct pool *pool, uint32_t index)
{
	struct dt_thread *record = &pool->base->threads[index];

	assert(index && index < DT_THREADS_MAX);
	/* First: if we are killed after this, the next controller doesn't report the losses
	 * again. */
	__atomic_store_n(&record->lost, 0, __ATOMIC_SEQ_CST);
	record->pid = 0;
	record->tid = 0;
	record->chunks = 0;
	/* The hint stays where it is: it follows the records taken last, which may be a long
	 * row. */
	__atomic_store_n(&record->claim, 0, __ATOMIC_RELEASE);
	/* pairs with thread_claim_record (T6) */
	__atomic_fetch_add(&pool->base->records_freed, 2, __ATOMIC_RELEASE);
}
