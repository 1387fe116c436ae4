/*
 * confine.h - what a worker gives up before it looks at any file of its target's.
 */
#ifndef DYNTRACE_CONFINE_H
#define DYNTRACE_CONFINE_H

#include <seccomp.h>

#include "control/base/error.h"

/* For good. Of root's capabilities those stay that tracing needs; no program can be started, no
 * socket made, no file made, removed or changed by its name. Failure: nothing of the target's may
 * be touched. */
struct error *confine_worker(void);

/* The filter of system calls, for the test: not loaded; caller releases. NULL: out of memory. */
scmp_filter_ctx confine_make_filter(void);

#endif
