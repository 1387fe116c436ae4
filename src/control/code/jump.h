/*
 * jump.h - lengths of jumps, and which jumps can be changed while threads run them.
 */
#ifndef DYNTRACE_JUMP_H
#define DYNTRACE_JUMP_H

#include <stdbool.h>

#include "shared/taddr.h"

#define JUMP_LENGTH 5
#define SHORT_JUMP_LENGTH 2
#define JUMP_CACHE_LINE 64

/* Does the distance of a jump at `jump` lie in one cache line? Then one store changes it. */
static inline bool jump_is_whole(taddr jump)
{
	return (jump.v + 1) % JUMP_CACHE_LINE + sizeof(int32_t) <= JUMP_CACHE_LINE;
}

#endif
