#include "rlimits.h"

#include <errno.h>
#include <stddef.h>

bool rlimits_raise(pid_t pid, int resource, rlim_t by, struct rlimits *ret_limits)
{
	struct rlimits limits = { .pid = pid, .resource = resource };

	if (prlimit(pid, (enum __rlimit_resource)resource, NULL, &limits.saved))
		return false;
	if (limits.saved.rlim_cur == RLIM_INFINITY) {
		errno = EINVAL;
		return false;
	}
	struct rlimit wanted = limits.saved;
	wanted.rlim_cur += by;
	if (wanted.rlim_cur > wanted.rlim_max)
		wanted.rlim_max = wanted.rlim_cur;
	if (prlimit(pid, (enum __rlimit_resource)resource, &wanted, NULL)) {
		if (errno != EPERM || limits.saved.rlim_cur == limits.saved.rlim_max)
			return false;
		/* raising the hard limit needs privilege; raising up to it doesn't */
		wanted = limits.saved;
		wanted.rlim_cur = wanted.rlim_max;
		if (prlimit(pid, (enum __rlimit_resource)resource, &wanted, NULL))
			return false;
	}
	limits.raised = true;
	*ret_limits = limits;
	return true;
}

void rlimits_restore(struct rlimits *limits)
{
	if (limits->raised)
		prlimit(limits->pid, (enum __rlimit_resource)limits->resource, &limits->saved,
			NULL);
	limits->raised = false;
}
