/*
 * cleanup.h - release at the end of the scope.
 *
 *	_cleanup_free_ char *name = ...;
 *	...
 *	*ret_name = take_ptr(&name);	hands the value over
 */
#ifndef DYNTRACE_CLEANUP_H
#define DYNTRACE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "error.h"

/* unused: clang warns of a variable that only its cleanup uses */
#define _cleanup_(function) __attribute__((cleanup(function), unused))

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void cleanup_error(struct error **error)
{
	error_free(*error);
}

#define _cleanup_free_ _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)
#define _cleanup_error_ _cleanup_(cleanup_error)

/* Gives the value and leaves NULL behind. */
#define take_ptr(where)                        \
	({                                     \
		__typeof__(*(where)) t_ = *(where); \
		*(where) = NULL;               \
		t_;                            \
	})

static inline int take_fd(int *fd)
{
	int value = *fd;

	*fd = -1;
	return value;
}

#endif
