/*
 * permissions.h - who may trace what.
 */
#ifndef DYNTRACE_PERMISSIONS_H
#define DYNTRACE_PERMISSIONS_H

#include "daemon/supervisor/targets/process.h"

struct request;
struct target;

/* NULL: the request may be done to the process. */
struct error *permissions_check(const struct request *request, pid_t pid,
				const struct process *process);
/* Its user's rights aren't enough to trace the process. `target` NULL: it doesn't have the
 * agent. */
bool permissions_needs_root(const struct target *target, const struct process *process);

#endif
