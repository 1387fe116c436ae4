/*
 * rlimits.h - a resource limit of the target, out of the way for a moment (H17).
 */
#ifndef DYNTRACE_RLIMITS_H
#define DYNTRACE_RLIMITS_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

struct rlimits {
	pid_t pid;
	int resource;
	bool raised;
	struct rlimit saved;
};

/* False (and errno): it can't be raised, or is as high as can be. */
bool rlimits_raise(pid_t pid, int resource, rlim_t by, struct rlimits *ret_limits);
/* As it was. Safe on one that was never raised. */
void rlimits_restore(struct rlimits *limits);

#endif
