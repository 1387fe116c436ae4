/*
 * huge_pool.h - the pool in huge pages, so that a thread of the target has one fault per 2 MiB of
 * events and not one per page.
 *
 * The memory is that of the pool, and as much, in whichever pages. Nothing here fails: without huge
 * pages (an old kernel, no free ones) the pool is as it was.
 */
#ifndef DYNTRACE_HUGE_POOL_H
#define DYNTRACE_HUGE_POOL_H

#include "control/proc/proc.h"

#define HUGE_POOL_ABOVE 0x700000000000ULL /* libraries, and no heap that grows */
/* A huge page is mapped as one only where it lies at a multiple of its size, here and there. */
#define HUGE_POOL_PAGE (2ULL << 20)

/* Reserves address space of our own for the pool, at such a place; NULL: none. */
void *huge_pool_reserve(uint64_t size);
/* Free bytes in the target, below the libraries, as the kernel would choose; 0: anywhere. */
taddr huge_pool_find_gap(const struct maps *maps, uint64_t size);
/* A place for the pool there, whose pages can be huge. */
taddr huge_pool_find_place(const struct maps *maps, uint64_t size);
/* Makes huge pages of the bytes [from, to) of the pool, which nobody has written yet. Takes
 * milliseconds. */
void huge_pool_collapse(int fd, void *pool, uint64_t from, uint64_t to);

#endif
