#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/strbuf.h"
#include "proc.h"
#include "proc_status.h"

#define FIND_LISTED_MAX 20

/* Arguments with NULs between; NULL when there are none (or the process has gone). */
static char *read_arguments(pid_t pid, size_t *ret_length)
{
	_cleanup_close_ int fd = proc_status_open(pid, "cmdline", O_RDONLY);

	return fd < 0 ? NULL : proc_status_slurp(fd, ret_length);
}

static void make_line(char *text, size_t length)
{
	while (length && !text[length - 1])
		length--;
	for (size_t i = 0; i < length; i++) {
		if (!text[i])
			text[i] = ' ';
		else if (!isprint((unsigned char)text[i]))
			text[i] = '?';
	}
	text[length] = '\0';
}

struct error *proc_cmdline(const struct proc *proc, char **ret_line)
{
	size_t length = 0;
	char *text = read_arguments(proc->pid, &length);

	if (!text && !proc_is_alive(proc))
		return error_new(ERROR_GONE, "process %d has ended", proc->pid);
	if (!text)
		return error_errno(errno, "cannot read the command line of process %d", proc->pid);
	make_line(text, length);
	*ret_line = text;
	return NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* By the name of its executable, also of one that was replaced on disk meanwhile. */
static bool exe_matches(pid_t pid, const char *name)
{
	char path[64], link[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return false;
	link[n] = '\0';
	char *deleted = strstr(link, " (deleted)");
	if (deleted && !deleted[strlen(" (deleted)")])
		*deleted = '\0';
	return !strcmp(base_name(link), name);
}

static bool matches(pid_t pid, const char *name)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *gone = proc_status_read_stat(pid, pid, &stat);
	_cleanup_free_ char *arguments = NULL;

	if (gone || pid == getpid() || !proc_status_live_thread(pid))
		return false;
	if (!strcmp(stat.comm, name) || exe_matches(pid, name))
		return true;
	arguments = read_arguments(pid, NULL);
	return arguments && *arguments && !strcmp(base_name(arguments), name);
}

static struct error *several(const char *target, const struct tids *pids)
{
	struct strbuf list = { 0 };

	for (size_t i = 0; i < pids->count && i < FIND_LISTED_MAX; i++) {
		size_t length = 0;
		_cleanup_free_ char *line = read_arguments(pids->items[i], &length);

		if (line)
			make_line(line, length);
		strbuf_printf(&list, "%s%d (%.60s)", i ? ", " : "", pids->items[i],
			      line && *line ? line : target);
	}
	if (pids->count > FIND_LISTED_MAX)
		strbuf_printf(&list, " and %zu more", pids->count - FIND_LISTED_MAX);
	struct error *err =
		error_new(ERROR_FAILED, "%zu processes are called '%s': use the pid of one: %s",
			  pids->count, target, list.failed ? "" : list.text);
	strbuf_free(&list);
	return err;
}

static struct error *find_by_name(const char *name, struct tids *ret_pids)
{
	DIR *dir = opendir("/proc");
	bool full = true;

	if (!dir)
		return error_errno(errno, "cannot read /proc");
	for (struct dirent *entry; full && (entry = readdir(dir));) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && matches(pid, name))
			full = vec_push(ret_pids, pid);
	}
	closedir(dir);
	return full ? NULL : error_new(ERROR_FAILED, "out of memory");
}

static struct error *find_by_pid(const char *digits, pid_t *ret_pid)
{
	char path[64];

	errno = 0;
	long pid = strtol(digits, NULL, 10);
	snprintf(path, sizeof(path), "/proc/%ld", pid);
	if (errno || pid <= 0 || pid > INT_MAX || access(path, F_OK))
		return error_new(ERROR_GONE, "there is no process %s", digits);
	*ret_pid = (pid_t)pid;
	return NULL;
}

struct error *proc_find(const char *target, pid_t *ret_pid)
{
	struct tids pids = { 0 };

	if (*target && !target[strspn(target, "0123456789")])
		return find_by_pid(target, ret_pid);
	struct error *err = find_by_name(target, &pids);
	if (!err && pids.count == 0)
		err = error_new(ERROR_GONE,
				"no process is called '%s': give its pid or its program's name",
				target);
	else if (!err && pids.count > 1)
		err = several(target, &pids);
	else if (!err)
		*ret_pid = pids.items[0];
	vec_free(&pids);
	return err;
}
