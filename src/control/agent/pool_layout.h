/*
 * pool_layout.h - how a pool is divided into chunks. Pure.
 */
#ifndef DYNTRACE_POOL_LAYOUT_H
#define DYNTRACE_POOL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Gives half of `size` bytes to small chunks and the rest to big ones; fewer big ones if the pool
 * with its tables would exceed DT_POOL_MAX. A thread that has recorded keeps a chunk, even if it
 * never records again: with half, the default has a chunk for each thread that a process may have.
 * Of a ring (DT_OVERWRITE) small chunks get a quarter: only first chunks replace them. */
void pool_layout(uint64_t size, bool is_ring, uint32_t *ret_small, uint32_t *ret_big);
/* Bytes of a whole pool with that many chunks. */
uint64_t pool_layout_size(uint32_t small, uint32_t big);

#endif
