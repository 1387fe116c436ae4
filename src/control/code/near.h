/*
 * near.h - where trampolines can go.
 *
 * Two parts. near_find_gap is pure: it looks for free address space that every byte of a module can
 * reach with a rel32, away from where the heap and the stack grow (H17). near_pool hands out
 * pieces of windows that were mapped, and takes them back.
 */
#ifndef DYNTRACE_NEAR_H
#define DYNTRACE_NEAR_H

#include "control/proc/proc.h"

/* A free range of `size` bytes (page aligned) such that any address of [low, high) reaches any
 * address of it with rel32, both ways. Prefers below the module, then above, nearest first. */
struct error *near_find_gap(const struct maps *maps, taddr low, taddr high, uint64_t size,
			    taddr *ret_at);

/* The lowest address of [low, high) at which `size` bytes are free, with the same care. */
bool near_find_in(const struct maps *maps, taddr low, taddr high, uint64_t size, taddr *ret_at);

struct near_pool;

struct near_piece {
	taddr at; /* in the target */
	uint64_t offset; /* in the code memfd */
	uint32_t size;
};

struct near_pool *near_pool_create(void); /* NULL: out of memory */
void near_pool_destroy(struct near_pool *pool);
/* A window: pages of the code memfd mapped at `at`. */
bool near_pool_add(struct near_pool *pool, taddr at, uint64_t offset, uint64_t size);
/* Likewise, for near_pool_alloc_at alone: what else is there might be where something must be
 * later. */
bool near_pool_add_fixed(struct near_pool *pool, taddr at, uint64_t offset, uint64_t size);
/* A piece that [low, high) reaches; 16-byte aligned. false: none left, add a window. */
bool near_pool_alloc(struct near_pool *pool, taddr low, taddr high, uint32_t size,
		     struct near_piece *ret_piece);
/* Also from fixed windows, if there is no other. */
bool near_pool_alloc_anywhere(struct near_pool *pool, taddr low, taddr high, uint32_t size,
			      struct near_piece *ret_piece);
/* Exactly the bytes at `at`. false: not in a window, or in use. */
bool near_pool_alloc_at(struct near_pool *pool, taddr at, uint32_t size,
			struct near_piece *ret_piece);
/* Gives the unused tail of a piece back (size smaller than it was). */
void near_pool_trim(struct near_pool *pool, struct near_piece *piece, uint32_t size);
void near_pool_free(struct near_pool *pool, struct near_piece piece);
/* Does a window of the pool hold the address? */
bool near_pool_has(const struct near_pool *pool, taddr at);
uint64_t near_pool_used(const struct near_pool *pool);

#endif
