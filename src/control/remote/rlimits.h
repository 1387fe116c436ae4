/*
 * rlimits.h - raise a resource limit of the target for a moment (H17).
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

/* False (and errno): not permitted, or the limit is infinite already. */
bool rlimits_raise(pid_t pid, int resource, rlim_t by, struct rlimits *ret_limits);
/* Puts the limit back. Safe on a struct of zeros. */
void rlimits_restore(struct rlimits *limits);

#endif
