/*
 * holders.c - find the processes that map an agent's code, by its memfd's device and inode (H12).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "agent.h"

static bool maps_code(pid_t pid, const char *needle)
{
	_cleanup_close_ int fd = proc_status_open(pid, "maps", O_RDONLY);
	_cleanup_free_ char *text = fd < 0 ? NULL : proc_status_slurp(fd, NULL);

	return text && strstr(text, needle);
}

uint64_t holders_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * (uint64_t)sysconf(_SC_CLK_TCK);
}

static bool is_older(pid_t pid, uint64_t since)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *error = since ? proc_status_read_stat(pid, pid, &stat) : NULL;

	return since && (error || stat.start_time < since);
}

/* `since` 0: all. */
static struct error *find(const struct agent *agent, uint64_t since, struct tids *ret_pids)
{
	struct tids pids = { 0 };
	char needle[64];
	bool full = true;
	DIR *dir = opendir("/proc");

	if (!dir)
		return error_errno(errno, "cannot read /proc");
	snprintf(needle, sizeof(needle), " %02x:%02x %llu ", major(agent->code_device),
		 minor(agent->code_device), (unsigned long long)agent->code_inode);
	for (struct dirent *entry; full && (entry = readdir(dir));) {
		pid_t pid = atoi(entry->d_name);

		/* the controller maps it too */
		if (pid > 0 && pid != getpid() && pid != agent->proc->pid &&
		    !is_older(pid, since) && maps_code(pid, needle))
			full = vec_push(&pids, pid);
	}
	closedir(dir);
	if (!full) {
		vec_free(&pids);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_pids = pids;
	return NULL;
}

struct error *holders_find(const struct agent *agent, struct tids *ret_pids)
{
	return find(agent, 0, ret_pids);
}

struct error *holders_find_forked(const struct agent *agent, struct tids *ret_pids)
{
	return find(agent, agent->since, ret_pids);
}

/* Is it a mapping of code that a controller of ours has put there? */
static bool is_code(const struct mapping *m)
{
	return m->shared && m->prot & PROT_EXEC &&
	       !strncmp(m->path, HOLDERS_CODE, strlen(HOLDERS_CODE));
}

static bool maps_same_code(const struct maps *one, const struct maps *other)
{
	for (size_t i = 0; i < one->count; i++) {
		const struct mapping *m = &one->items[i];

		for (size_t j = 0; is_code(m) && j < other->count; j++) {
			if (is_code(&other->items[j]) && other->items[j].inode == m->inode &&
			    other->items[j].device == m->device)
				return true;
		}
	}
	return false;
}

struct error *holders_share_code(const struct proc *one, const struct proc *other,
				 bool *ret_shared)
{
	struct maps first = { 0 }, second = { 0 };
	struct error *error = maps_read(one, &first);

	if (!error)
		error = maps_read(other, &second);
	if (!error)
		*ret_shared = maps_same_code(&first, &second);
	maps_free(&first);
	maps_free(&second);
	return error;
}
