/*
 * confine.h - the rights that a worker gives up before it opens a file of its target.
 */
#ifndef DYNTRACE_CONFINE_H
#define DYNTRACE_CONFINE_H

#include <seccomp.h>

#include "control/base/error.h"

/* For good: keeps only the capabilities that tracing needs; starts no program, makes no socket, and
 * makes, removes and changes no file by name. After a failure the target must not be touched. */
struct error *confine_worker(void);

/* The filter of system calls, for the test: not loaded; caller releases. NULL: out of memory. */
scmp_filter_ctx confine_make_filter(void);

#endif
