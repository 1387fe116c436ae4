/*
 * threads.c - the list of a process's threads.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proc.h"

struct error *threads_list(const struct proc *proc, struct tids *ret_tids)
{
	struct tids tids = { 0 };
	char path[64];
	bool full = true;

	snprintf(path, sizeof(path), "/proc/%d/task", proc->pid);
	DIR *dir = opendir(path);
	if (!dir && errno != ENOENT)
		return error_errno(errno, "cannot read %s", path);
	for (struct dirent *entry; dir && full && (entry = readdir(dir));) {
		pid_t tid = atoi(entry->d_name);

		full = tid <= 0 || vec_push(&tids, tid);
	}
	if (dir)
		closedir(dir);
	if (full && tids.count && proc_is_alive(proc)) {
		*ret_tids = tids;
		return NULL;
	}
	vec_free(&tids);
	if (!full)
		return error_new(ERROR_FAILED, "out of memory");
	return error_new(ERROR_GONE, "process %d has ended", proc->pid);
}
