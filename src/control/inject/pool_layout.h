/*
 * pool_layout.h - how many chunks a pool of that size has. Pure.
 */
#ifndef DYNTRACE_INJECT_POOL_LAYOUT_H
#define DYNTRACE_INJECT_POOL_LAYOUT_H

#include "../../shared/layout.h"

/* `size`: memory for events. A quarter of it are small chunks. The whole memfd is *ret_total: chunks and tables. */
void pool_layout(uint64_t size, uint32_t *ret_small, uint32_t *ret_big, uint64_t *ret_total);

#endif
