/*
 * place.h - the folders for a test's files: those that tests/run gave to the job and removes after
 * it, or the usual places.
 */
#ifndef DYNTRACE_TESTS_PLACE_H
#define DYNTRACE_TESTS_PLACE_H

#include <stdlib.h>

static inline const char *place_disk(void)
{
	const char *path = getenv("TMPDIR");

	return path ? path : "/tmp";
}

static inline const char *place_memory(void)
{
	const char *path = getenv("DYNTRACE_TEST_MEMORY");

	return path ? path : "/dev/shm";
}

#endif
