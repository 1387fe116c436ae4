#include "realtime.h"

#include <assert.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/resource.h>

static _Thread_local struct {
	unsigned depth;
	bool raised;
	int policy;
	struct sched_param param;
} saved;

static bool raise_to(int priority)
{
	struct sched_param fifo = { .sched_priority = priority };

	return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &fifo) == 0;
}

/* (S20) Without privilege a limit says what is permitted. */
static bool raise_to_highest(void)
{
	struct rlimit limit;

	return raise_to(sched_get_priority_max(SCHED_FIFO)) ||
	       (!getrlimit(RLIMIT_RTPRIO, &limit) && raise_to((int)limit.rlim_cur));
}

void realtime_begin(void)
{
	if (saved.depth++)
		return;
	saved.raised = false;
	saved.policy = sched_getscheduler(0);
	if (saved.policy < 0 || sched_getparam(0, &saved.param))
		return;
	int policy = saved.policy & ~SCHED_RESET_ON_FORK;
	if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE)
		return;
	saved.raised = raise_to_highest();
}

void realtime_end(void)
{
	assert(saved.depth);
	if (--saved.depth || !saved.raised)
		return;
	/* without privilege everything but the reset-on-fork flag can be taken back */
	if (sched_setscheduler(0, saved.policy, &saved.param))
		sched_setscheduler(0, saved.policy | SCHED_RESET_ON_FORK, &saved.param);
}
