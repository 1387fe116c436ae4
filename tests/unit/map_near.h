/*
 * map_near.h - memory for code, within reach of the test's own.
 */
#ifndef DYNTRACE_TESTS_MAP_NEAR_H
#define DYNTRACE_TESTS_MAP_NEAR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

/* Maps memory for code at least `distance` bytes below `what`. Fails the test if none is free. */
static inline void *map_near(const void *what, uint64_t distance, size_t size)
{
	for (; distance < 1u << 30; distance += 16 << 20) {
		void *at = mmap((void *)(((uint64_t)what - distance) & ~4095ULL), size,
				PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (at != MAP_FAILED)
			return at;
	}
	fail_msg("no memory near the test");
	return NULL;
}

#endif
