#include "unreleased.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "control/base/vec.h"

struct unreleased {
	pid_t tid;
	bool own_child;
};

static _Thread_local VEC(struct unreleased) leftovers;

void unreleased_add(pid_t tid, bool own_child)
{
	(void)vec_push(&leftovers, (struct unreleased){ tid, own_child });
}

bool unreleased_take(pid_t tid)
{
	for (size_t i = 0; i < leftovers.count; i++) {
		if (leftovers.items[i].tid != tid)
			continue;
		leftovers.items[i] = *vec_last(&leftovers);
		leftovers.count--;
		return true;
	}
	return false;
}

/* True: the thread is let go or gone, and leaves the list. */
static bool settle_one(const struct unreleased *leftover)
{
	int which = WSTOPPED | (leftover->own_child ? 0 : WEXITED);
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)leftover->tid, &info, which | WNOHANG | __WALL))
		return true;
	if (!info.si_pid)
		return false;
	if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
		return true;
	/* the detach delivers a pending signal that was reported without an event */
	int signal = info.si_status >> 8 ? 0 : info.si_status;
	return ptrace(PTRACE_DETACH, leftover->tid, 0, signal) == 0;
}

void unreleased_settle(void)
{
	for (size_t i = 0; i < leftovers.count;) {
		if (settle_one(&leftovers.items[i]))
			leftovers.items[i] = leftovers.items[--leftovers.count];
		else
			i++;
	}
}
