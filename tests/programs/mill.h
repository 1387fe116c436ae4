/*
 * mill.h - the message of mill.c on its first descriptor, written when all its threads run.
 */
#ifndef DYNTRACE_TESTS_MILL_H
#define DYNTRACE_TESTS_MILL_H

#include <stdint.h>

#define MILL_SHAPES 16

struct mill_shape {
	uint64_t at;
	uint64_t first_only; /* it is too short for more */
};

#endif
