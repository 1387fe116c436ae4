/*
 * huge_pool.c
 *
 * The kernel makes a huge page of small ones (MADV_COLLAPSE, Linux 6.1) whatever its settings for
 * shared memory are. A single page per 2 MiB is enough for that: the kernel copies it, and clears
 * the rest. So this is faster than to allocate all pages first.
 */
#include "huge_pool.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/layout.h"
#include "control/base/cleanup.h"
#include "control/code/near.h"

#define HUGE_POOL_COLLAPSE 25 /* MADV_COLLAPSE */
/* left free above, where the kernel puts the next mappings: the agent, stacks of new threads */
#define HUGE_POOL_ROOM (64ULL << 20)
#define HUGE_POOL_STEP (64ULL << 20)

void *huge_pool_reserve(uint64_t size)
{
	uint64_t room = DT_ROUND_UP(size, DT_PAGE) + HUGE_POOL_PAGE;
	void *all = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		return NULL;
	uint64_t start = (uint64_t)all, at = DT_ROUND_UP(start, HUGE_POOL_PAGE);
	uint64_t end = at + DT_ROUND_UP(size, DT_PAGE);
	if (at > start)
		munmap(all, at - start);
	if (start + room > end)
		munmap((void *)end, start + room - end);
	return (void *)at;
}

taddr huge_pool_find_gap(const struct maps *maps, uint64_t size)
{
	const struct mapping *top = NULL;
	taddr gap = taddr_of(0);

	for (size_t i = 0; i < maps->count; i++) {
		if (maps->items[i].path[0] == '/' && maps->items[i].start.v >= HUGE_POOL_ABOVE)
			top = &maps->items[i];
	}
	_cleanup_error_ struct error *full =
		top ? near_find_gap(maps, top->start, top->end, size, &gap) : NULL;
	return full ? taddr_of(0) : gap;
}

taddr huge_pool_find_place(const struct maps *maps, uint64_t size)
{
	taddr gap = huge_pool_find_gap(maps, size + HUGE_POOL_ROOM);

	return taddr_of(DT_ROUND_UP(gap.v, HUGE_POOL_PAGE));
}

/* Has the file a list of processors in it? */
static bool lists_some(const char *path)
{
	char text[16] = "";
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strchr("0123456789", text[0]);
}

/* The kernel has each processor do something first. One that is kept for a program which never
 * yields it would let us wait for ever. */
static bool may_wait_for_processors(void)
{
	return lists_some("/sys/devices/system/cpu/isolated") ||
	       lists_some("/sys/devices/system/cpu/nohz_full");
}

void huge_pool_collapse(int fd, void *pool, uint64_t from, uint64_t to)
{
	uint64_t first = DT_ROUND_UP(from, HUGE_POOL_PAGE), end = to & ~(HUGE_POOL_PAGE - 1);

	if ((uint64_t)pool % HUGE_POOL_PAGE || first >= end || may_wait_for_processors())
		return;
	for (uint64_t at = first; at < end; at += HUGE_POOL_PAGE) {
		if (posix_fallocate(fd, (off_t)at, (off_t)DT_PAGE))
			return;
	}
	for (uint64_t at = first; at < end; at += HUGE_POOL_STEP) {
		uint64_t size = end - at < HUGE_POOL_STEP ? end - at : HUGE_POOL_STEP;

		if (madvise((char *)pool + at, size, HUGE_POOL_COLLAPSE))
			return;
	}
}
