#include "proc_end.h"

#include <fcntl.h>
#include <linux/types.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "control/base/cleanup.h"
#include "proc_status.h"

/* Since Linux 6.15 a pidfd gives the exit status, also when the parent has waited for it
 * already. */
struct pidfd_end {
	uint64_t mask;
	uint64_t cgroup;
	uint32_t ids[11]; /* three of processes, four of users and of groups */
	int32_t exit_code;
};
_Static_assert(sizeof(struct pidfd_end) == 64, "the first version of struct pidfd_info");
#define PIDFD_END_MASK (1ULL << 3) /* PIDFD_INFO_EXIT */
#define PIDFD_END_REQUEST _IOWR(0xFF, 11, struct pidfd_end)

static bool ask_pidfd(const struct proc *proc, int *ret_status)
{
	struct pidfd_end end = { .mask = PIDFD_END_MASK };

	if (ioctl(proc->pidfd, PIDFD_END_REQUEST, &end) || !(end.mask & PIDFD_END_MASK))
		return false;
	*ret_status = end.exit_code;
	return true;
}

/* A zombie, which its parent hasn't waited for yet: the last number of /proc/PID/stat. */
static bool ask_zombie(const struct proc *proc, int *ret_status)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", proc->pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = fd < 0 ? NULL : proc_status_slurp(fd, NULL);
	const char *state = text ? strrchr(text, ')') : NULL,
		   *last = text ? strrchr(text, ' ') : NULL;

	if (!state || !last || state[1] != ' ' || !strchr("ZX", state[2]))
		return false;
	*ret_status = atoi(last + 1);
	return true;
}

static void describe_signal(int number, bool core, char *ret_text, size_t size)
{
	const char *name = sigabbrev_np(number);

	if (name)
		snprintf(ret_text, size, "killed by SIG%s%s", name, core ? " (core dumped)" : "");
	else
		snprintf(ret_text, size, "killed by signal %d", number);
}

bool proc_end_status(const struct proc *proc, int *ret_status)
{
	if (proc->reaped)
		*ret_status = proc->reaped_status;
	return proc->reaped || ask_pidfd(proc, ret_status) || ask_zombie(proc, ret_status);
}

void proc_end_describe(const struct proc *proc, char *ret_text, size_t size)
{
	int status = 0;

	if (!proc_end_status(proc, &status))
		snprintf(ret_text, size, "exit status unknown");
	else if (WIFSIGNALED(status))
		describe_signal(WTERMSIG(status), WCOREDUMP(status), ret_text, size);
	else
		snprintf(ret_text, size, "exit status %d", WEXITSTATUS(status));
}

bool proc_end_killed(int status, char *ret_text, size_t size)
{
	if (WIFSIGNALED(status))
		describe_signal(WTERMSIG(status), false, ret_text, size);
	return WIFSIGNALED(status);
}
