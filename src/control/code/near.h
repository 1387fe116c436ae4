/*
 * near.h - memory for trampolines, in reach of a module.
 *
 * Two parts. near_find_gap is pure: it looks for free address space that every byte of a module can
 * reach with a rel32, away from where the heap and the stack grow (H17). near_pool hands out pieces
 * of mapped windows, and takes them back.
 */
#ifndef DYNTRACE_NEAR_H
#define DYNTRACE_NEAR_H

#include "control/proc/proc.h"

#define NEAR_GRAIN 16ULL /* pieces have whole grains */

/* Finds a free range of `size` bytes (page aligned) such that any address of [low, high) reaches
 * any address of the range with rel32, both ways. Prefers below the module, then above, nearest
 * first. */
struct error *near_find_gap(const struct maps *maps, taddr low, taddr high, uint64_t size,
			    taddr *ret_at);

/* Finds a place for `size` bytes near `at`, with a free page on either side: the kernel joins a new
 * mapping there with no other, and the next controller recognises it by its bounds. */
struct error *near_find_lone(const struct proc *proc, taddr at, uint64_t size, taddr *ret_at);

/* Finds the lowest address of [low, high) at which `size` bytes are free, with the same care for
 * the stack, and if `keep_heap`, for the heap. */
bool near_find_in(const struct maps *maps, taddr low, taddr high, uint64_t size, bool keep_heap,
		  taddr *ret_at);

struct near_pool;

struct near_piece {
	taddr at; /* in the target */
	uint64_t offset; /* in the code memfd */
	uint32_t size;
};

struct near_pool *near_pool_create(void); /* NULL: out of memory */
void near_pool_destroy(struct near_pool *pool);
/* Adds a window: pages of the code memfd mapped at `at`. False: out of memory. */
bool near_pool_add(struct near_pool *pool, taddr at, uint64_t offset, uint64_t size);
/* Adds a window for near_pool_alloc_at: other pieces there could take a place that a later piece
 * must have. */
bool near_pool_add_fixed(struct near_pool *pool, taddr at, uint64_t offset, uint64_t size);
/* Gives a piece that [low, high) reaches; 16-byte aligned. False: none left, add a window. */
bool near_pool_alloc(struct near_pool *pool, taddr low, taddr high, uint32_t size,
		     struct near_piece *ret_piece);
/* Gives such a piece, also from fixed windows if the others have none. */
bool near_pool_alloc_anywhere(struct near_pool *pool, taddr low, taddr high, uint32_t size,
			      struct near_piece *ret_piece);
/* Gives exactly the bytes at `at`. False: not in a window, or in use. */
bool near_pool_alloc_at(struct near_pool *pool, taddr at, uint32_t size,
			struct near_piece *ret_piece);
/* Gives the unused tail of a piece back (size smaller than it was). */
void near_pool_trim(struct near_pool *pool, struct near_piece *piece, uint32_t size);
void near_pool_free(struct near_pool *pool, struct near_piece piece);
/* A piece that stays as long as the pool: code that other pieces call (codegen/shared_code.h).
 * `key`: the owner's. */
struct near_shared {
	uint32_t key;
	struct near_piece piece;
};
/* False: out of memory; the piece is the caller's then. */
bool near_pool_share(struct near_pool *pool, uint32_t key, struct near_piece piece);
/* Finds the piece of that key that [low, high) reaches; NULL: none. */
const struct near_shared *near_pool_find_shared(const struct near_pool *pool, taddr low, taddr high,
						uint32_t key);
size_t near_pool_shared_count(const struct near_pool *pool);
const struct near_shared *near_pool_shared(const struct near_pool *pool, size_t index);
/* Does a window of the pool hold the address? */
bool near_pool_has(const struct near_pool *pool, taddr at);
uint64_t near_pool_used(const struct near_pool *pool);

#endif
