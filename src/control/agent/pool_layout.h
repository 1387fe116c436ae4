/*
 * pool_layout.h - how a pool is divided into chunks. Pure.
 */
#ifndef DYNTRACE_POOL_LAYOUT_H
#define DYNTRACE_POOL_LAYOUT_H

#include <stdint.h>

/* Gives a quarter of `size` bytes to small chunks and the rest to big ones; fewer big ones if the
 * pool with its tables would exceed DT_POOL_MAX. */
void pool_layout(uint64_t size, uint32_t *ret_small, uint32_t *ret_big);
/* Bytes of a whole pool with that many chunks. */
uint64_t pool_layout_size(uint32_t small, uint32_t big);

#endif
