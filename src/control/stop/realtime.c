#include "realtime.h"

#include <assert.h>
#include <sched.h>
#include <stdbool.h>

static _Thread_local struct {
	unsigned depth;
	bool raised;
	int policy;
	struct sched_param param;
} saved;

void realtime_begin(void)
{
	struct sched_param fifo = { .sched_priority = 1 };

	if (saved.depth++)
		return;
	saved.raised = false;
	saved.policy = sched_getscheduler(0);
	if (saved.policy < 0 || sched_getparam(0, &saved.param))
		return;
	int policy = saved.policy & ~SCHED_RESET_ON_FORK;
	if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE)
		return;
	saved.raised = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &fifo) == 0;
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
