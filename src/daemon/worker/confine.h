/*
 * confine.h - the rights that a worker gives up before it looks at its target.
 */
#ifndef DYNTRACE_CONFINE_H
#define DYNTRACE_CONFINE_H

#include <seccomp.h>

#include "control/base/error.h"

enum confine_stage {
	/* before anything of the target is read: all but making, renaming and removing files in a
	 * directory that is open */
	CONFINE_FIRST,
	CONFINE_WHOLE,
};

/* For good: keeps only the capabilities that tracing needs; starts no program, makes no socket, and
 * makes, removes and changes no file by name. After a failure the target must not be touched. A
 * later call can only take more. */
struct error *confine_worker(enum confine_stage stage);

/* The filter of system calls, for the test: not loaded; caller releases. NULL: out of memory. */
scmp_filter_ctx confine_make_filter(enum confine_stage stage);

#endif
