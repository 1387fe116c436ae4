/*
 * thread_liveness.c - is a thread that wrote a chunk still alive?
 *
 * Thread records hold ids of the target's pid namespace. If that is ours, too, an empty signal asks
 * the kernel, which is a hundred times cheaper than /proc; except for a group leader, which takes
 * signals after its end as long as other threads live. In another namespace a thread counts as
 * alive until its process ends: its last chunk is read then, and by every flush before. Its id here
 * is found by NSpid.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "thread_liveness.h"

/* The state letter of /proc/PID/task/TID/stat; 0: no such thread. */
static char thread_state(uint32_t pid, uint32_t tid)
{
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, tid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	const char *paren = strrchr(line, ')');
	return paren && paren[1] == ' ' ? paren[2] : 0;
}

bool thread_liveness_ask(void *context, uint32_t pid, uint32_t tid)
{
	const struct session *session = context;

	if (session->proc->inner_pid != session->proc->pid)
		return proc_is_alive(session->proc);
	if (tid != pid)
		return !syscall(SYS_tgkill, pid, tid, 0) || errno == EPERM;
	char state = thread_state(pid, tid);
	return state && state != 'Z' && state != 'X';
}

/* ---- ids of other namespaces ---------------------------------------------------------------- */

/* The last number of NSpid: the id in the innermost namespace. 0: unknown. */
static uint32_t inner_id(const char *path)
{
	char line[256];
	uint32_t id = 0;

	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		if (!strncmp(line, "NSpid:", 6) && last) {
			id = (uint32_t)strtoul(last, NULL, 10);
			break;
		}
	}
	return id;
}

static bool same_namespace(pid_t a, pid_t b)
{
	char path[64];
	struct stat x, y;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", a);
	if (stat(path, &x))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", b);
	return !stat(path, &y) && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

/* The entry of a /proc directory whose innermost id is `id`; 0: none. `like`: if not 0, only in the
 * namespace of that process. */
static uint32_t find_inner(const char *directory, uint32_t id, pid_t like)
{
	char path[320];
	DIR *entries = opendir(directory);
	uint32_t found = 0;

	for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
		pid_t number = (pid_t)strtol(entry->d_name, NULL, 10);

		snprintf(path, sizeof(path), "%s/%s/status", directory, entry->d_name);
		if (number > 0 && inner_id(path) == id && (!like || same_namespace(number, like)))
			found = (uint32_t)number;
	}
	if (entries)
		closedir(entries);
	return found;
}

void thread_liveness_outer(void *context, uint32_t *pid, uint32_t *tid)
{
	const struct session *session = context;
	const struct proc *proc = session->proc;
	char tasks[64];

	if (proc->inner_pid == proc->pid)
		return;
	assert(proc->inner_pid > 0 && proc->pid > 0);
	*pid = *pid == (uint32_t)proc->inner_pid ? (uint32_t)proc->pid :
						   find_inner("/proc", *pid, proc->pid);
	snprintf(tasks, sizeof(tasks), "/proc/%u/task", *pid);
	*tid = *pid ? find_inner(tasks, *tid, 0) : 0;
}
