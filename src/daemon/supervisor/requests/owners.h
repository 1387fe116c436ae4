/*
 * owners.h - whose tracepoints a request would change.
 *
 * (D8) A tracepoint is changed, and a process with tracepoints is stopped or detached, by the user
 *      who added them, by root and by the daemon's own user alone.
 */
#ifndef DYNTRACE_OWNERS_H
#define DYNTRACE_OWNERS_H

#include "control/base/error.h"

struct request;
struct target;

/* NULL: the request changes nothing of another user's in the process. */
struct error *owners_check(const struct request *request, const struct target *target);

#endif
