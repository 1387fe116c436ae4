#include "sharers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/cleanup.h"

#define SHARERS_KCMP_VM 1

static bool is_known(const struct stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (stop->threads.items[i].tid == tid)
			return true;
	}
	return false;
}

/* All threads of a process that shares our memory. */
static struct error *take_process(struct stop *stop, pid_t pid, bool *ret_found)
{
	struct tids tids = { 0 };
	_cleanup_error_ struct error *gone = threads_list(&(struct proc){ .pid = pid, .pidfd = -1 }, &tids);
	struct error *err = NULL;

	for (size_t i = 0; !gone && !err && i < tids.count; i++) {
		bool ours = false;

		if (!is_known(stop, tids.items[i]))
			err = held_seize(stop, tids.items[i], true, &ours);
		*ret_found |= ours;
	}
	vec_free(&tids);
	return err;
}

static struct error *take_children(struct stop *stop, pid_t tid, bool *ret_found)
{
	char path[64], text[4096];
	struct error *err = NULL;
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", tid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	char *at = text;
	for (long child; !err && (child = strtol(at, &at, 10)) > 0;) {
		if (!is_known(stop, (pid_t)child) &&
		    !syscall(SYS_kcmp, tid, child, SHARERS_KCMP_VM, 0, 0))
			err = take_process(stop, (pid_t)child, ret_found);
	}
	return err;
}

struct error *sharers_take(struct stop *stop, bool *ret_found)
{
	struct error *err = NULL;

	*ret_found = false;
	for (size_t i = 0; !err && i < stop->threads.count; i++)
		err = take_children(stop, stop->threads.items[i].tid, ret_found);
	return err;
}
