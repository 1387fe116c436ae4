/*
 * failing_read.h - a read of the target's memory that fails. For a test that meson.build links with
 * --wrap=mem_read: the linker hands all calls of mem_read to the function here.
 */
#ifndef DYNTRACE_FAILING_READ_H
#define DYNTRACE_FAILING_READ_H

#include <stdint.h>

#include "control/proc/proc.h"

static size_t reads_left = SIZE_MAX; /* then one fails */

struct error *__real_mem_read(struct proc *proc, taddr from, void *to, size_t n);
struct error *__wrap_mem_read(struct proc *proc, taddr from, void *to, size_t n);
struct error *__wrap_mem_read(struct proc *proc, taddr from, void *to, size_t n)
{
	if (reads_left != SIZE_MAX && !reads_left--)
		return error_new(ERROR_FAILED, "no read");
	return __real_mem_read(proc, from, to, n);
}

#endif
