/*
 * pool_layout.h - how a pool is divided into chunks. Pure.
 */
#ifndef DYNTRACE_POOL_LAYOUT_H
#define DYNTRACE_POOL_LAYOUT_H

#include <stdint.h>

/* Of `size` bytes for chunks a quarter is small ones, the rest big ones; fewer where what has to
 * stand before them wouldn't leave room below DT_POOL_MAX. */
void pool_layout(uint64_t size, uint32_t *ret_small, uint32_t *ret_big);
/* Of the whole pool, with that many chunks. */
uint64_t pool_layout_size(uint32_t small, uint32_t big);

#endif
