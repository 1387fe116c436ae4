#include "find_process.h"

#include <assert.h>
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
#include "proc_status.h"

#define LISTED_MAX 20

/* The arguments, separated by NULs; NULL: the process has none, or is gone. */
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

void find_process_executable(pid_t pid, char *ret_name, size_t size)
{
	char path[64], link[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	ssize_t length = readlink(path, link, sizeof(link) - 1);
	link[length > 0 ? length : 0] = '\0';
	char *deleted = strstr(link, " (deleted)");
	if (deleted && !deleted[strlen(" (deleted)")])
		*deleted = '\0';
	snprintf(ret_name, size, "%s", base_name(link));
}

/* The cheap look first. */
static bool is_called(pid_t pid, const char *name, bool by_argument)
{
	struct thread_stat stat;
	char executable[NAME_MAX + 1];
	_cleanup_error_ struct error *gone = proc_status_read_stat(pid, pid, &stat);
	_cleanup_free_ char *arguments = NULL;

	if (gone || pid == getpid() || (stat.flags & STATUS_PF_KTHREAD) ||
	    !proc_status_live_thread(pid))
		return false;
	if (!strcmp(stat.comm, name))
		return true;
	find_process_executable(pid, executable, sizeof(executable));
	if (!strcmp(executable, name))
		return true;
	arguments = by_argument ? read_arguments(pid, NULL) : NULL;
	return arguments && *arguments && !strcmp(base_name(arguments), name);
}

struct error *find_process_all(const char *name, bool by_argument, struct tids *ret_pids)
{
	DIR *dir = opendir("/proc");
	bool full = true;

	if (!dir)
		return error_errno(errno, "cannot read /proc");
	for (struct dirent *entry; *name && full && (entry = readdir(dir));) {
		pid_t pid = atoi(entry->d_name);

		if (pid > 0 && is_called(pid, name, by_argument))
			full = vec_push(ret_pids, pid);
	}
	closedir(dir);
	return full ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* Adds processes whose parent is among the pids. False: out of memory. */
static bool add_generation(const struct tids *all, struct tids *pids, bool *ret_any)
{
	*ret_any = false;
	for (size_t i = 0; i < all->count; i++) {
		struct thread_status status;
		_cleanup_error_ struct error *gone =
			proc_status_read(all->items[i], all->items[i], &status);
		bool is_child = false, is_known = gone || !proc_status_live_thread(all->items[i]);

		for (size_t j = 0; j < pids->count && !is_known; j++) {
			is_known = pids->items[j] == all->items[i];
			is_child |= pids->items[j] == status.parent;
		}
		if (is_known || !is_child || all->items[i] == getpid())
			continue;
		if (!vec_push(pids, all->items[i]))
			return false;
		*ret_any = true;
	}
	return true;
}

struct error *find_process_children(struct tids *pids)
{
	struct tids all = { 0 };
	DIR *dir = opendir("/proc");
	bool any = true, full = true;

	if (!dir)
		return error_errno(errno, "cannot read /proc");
	for (struct dirent *entry; full && (entry = readdir(dir));) {
		if (atoi(entry->d_name) > 0)
			full = vec_push(&all, atoi(entry->d_name));
	}
	closedir(dir);
	while (any && full)
		full = add_generation(&all, pids, &any);
	vec_free(&all);
	return full ? NULL : error_new(ERROR_FAILED, "out of memory");
}

struct error *find_process_several(const char *name, const struct tids *pids, const char *advice,
				   find_process_describe_fn describe)
{
	struct strbuf list = { 0 };

	assert(pids->count > 1);
	for (size_t i = 0; i < pids->count && i < LISTED_MAX; i++) {
		char text[64] = "";

		describe(pids->items[i], text, sizeof(text));
		strbuf_printf(&list, "%s%d (%s)", i ? ", " : "", pids->items[i],
			      *text ? text : name);
	}
	if (pids->count > LISTED_MAX)
		strbuf_printf(&list, " and %zu more", pids->count - LISTED_MAX);
	struct error *error = error_new(ERROR_FAILED, "%zu processes are called '%s': %s: %s",
					pids->count, name, advice, list.failed ? "" : list.text);
	strbuf_free(&list);
	return error;
}

void find_process_by_arguments(pid_t pid, char *ret_text, size_t size)
{
	size_t length = 0;
	_cleanup_free_ char *line = read_arguments(pid, &length);

	if (line) {
		make_line(line, length);
		snprintf(ret_text, size, "%.60s", line);
	}
}

static struct error *find_by_pid(const char *digits, pid_t *ret_pid)
{
	char path[64];

	errno = 0;
	long pid = strtol(digits, NULL, 10);
	snprintf(path, sizeof(path), "/proc/%ld", pid);
	if (errno || pid <= 0 || pid > INT_MAX || access(path, F_OK))
		return error_new(ERROR_GONE, "no process %s", digits);
	*ret_pid = (pid_t)pid;
	return NULL;
}

struct error *proc_find(const char *target, pid_t *ret_pid)
{
	struct tids pids = { 0 };

	if (*target && !target[strspn(target, "0123456789")])
		return find_by_pid(target, ret_pid);
	struct error *err = find_process_all(target, true, &pids);
	if (!err && pids.count == 0)
		err = error_new(ERROR_GONE,
				"no process is called '%s' (give its pid or its program's name)",
				target);
	else if (!err && pids.count > 1)
		err = find_process_several(target, &pids, "use the pid of one",
					   find_process_by_arguments);
	else if (!err)
		*ret_pid = pids.items[0];
	vec_free(&pids);
	return err;
}
