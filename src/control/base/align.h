/* align.h - the next place with an alignment. */
#ifndef DYNTRACE_ALIGN_H
#define DYNTRACE_ALIGN_H

#include <stddef.h>

/* `align`: a power of two. A division would take longer than all else that a reader does for a
 * field. */
static inline size_t align_up(size_t at, size_t align)
{
	return (at + align - 1) & ~(align - 1);
}

#endif
