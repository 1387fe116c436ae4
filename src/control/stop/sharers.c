#include "sharers.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"

#define SHARERS_KCMP_VM 1

static bool is_known(const struct stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (stop->threads.items[i].tid == tid)
			return true;
	}
	return false;
}

/* Seizes all threads of a process that shares the target's memory. */
static struct error *take_process(struct stop *stop, pid_t pid, bool *ret_found)
{
	struct tids tids = { 0 };
	_cleanup_error_ struct error *gone =
		threads_list(&(struct proc){ .pid = pid, .pidfd = -1 }, &tids);
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

/* ---- children of threads --------------------------------------------------------------------- */

typedef struct error *child_fn(struct stop *stop, pid_t child, bool *ret_found);

/* Calls `take` for each child of one thread that shares its memory. */
static struct error *each_sharer(struct stop *stop, pid_t tid, child_fn *take, bool *ret_found)
{
	char path[64], text[4096];
	size_t kept = 0;
	struct error *err = NULL;
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", tid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (ssize_t n;
	     !err && fd >= 0 && (n = read(fd, text + kept, sizeof(text) - 1 - kept)) > 0;) {
		char *at = text, *end;

		text[kept + (size_t)n] = '\0';
		for (; !err && (end = strchr(at, ' ')); at = end + 1) {
			pid_t child = (pid_t)strtol(at, NULL, 10);

			if (!is_known(stop, child) &&
			    !syscall(SYS_kcmp, tid, child, SHARERS_KCMP_VM, 0, 0))
				err = take(stop, child, ret_found);
		}
		kept = strlen(at); /* a number may lie across two reads */
		memmove(text, at, kept);
	}
	return err;
}

/* ---- new threads and processes --------------------------------------------------------------- */

/* The last number that the kernel gave to a thread or process, anywhere; 0: unknown. Each new one
 * gets the next number (only tools that restore checkpoints ask for another). */
static long last_number(void)
{
	char text[128] = "";
	struct statfs filesystem;
	_cleanup_close_ int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	/* in containers a program may make the file up, with old contents */
	if (n <= 0 || fstatfs(fd, &filesystem) || filesystem.f_type != PROC_SUPER_MAGIC)
		return 0;
	const char *last = strrchr(text, ' ');
	return last ? strtol(last, NULL, 10) : 0;
}

static struct error *note_one(struct stop *stop, pid_t child, bool *ret_found)
{
	(void)stop;
	(void)child;
	*ret_found = true;
	return NULL;
}

void sharers_look(struct stop *stop)
{
	struct tids tids = { 0 };
	long number = last_number();
	_cleanup_error_ struct error *gone = threads_list(stop->proc, &tids);
	bool found = false;

	for (size_t i = 0; !gone && i < tids.count && !found; i++)
		error_free(each_sharer(stop, tids.items[i], note_one, &found));
	stop->alone_number = found || gone ? 0 : number;
	vec_free(&stop->alone_threads);
	stop->alone_threads = tids;
}

/* Was each thread looked at, or did it get its number since? The two lists are mostly in the same
 * order. */
static bool were_looked_at(const struct stop *stop, long last)
{
	const struct tids *tids = &stop->alone_threads;
	size_t hint = 0;

	for (size_t i = 0; i < stop->threads.count; i++) {
		const struct held *held = &stop->threads.items[i];
		size_t tries = 0;

		if (held->sharer)
			return false;
		if (held->tid > stop->alone_number && held->tid <= last)
			continue;
		while (tries < tids->count &&
		       tids->items[(hint + tries) % tids->count] != held->tid)
			tries++;
		if (tries == tids->count)
			return false;
		hint += tries + 1;
	}
	return true;
}

/* Is it, or a process that it is a thread of, a child of the target? */
static bool is_child(const struct stop *stop, pid_t tid)
{
	struct thread_status status;
	_cleanup_error_ struct error *ended = proc_status_read(tid, tid, &status);

	return ended ? error_kind(ended) != ERROR_GONE : status.parent == stop->proc->pid;
}

/* (S8) */
static bool is_still_alone(const struct stop *stop)
{
	long last = stop->alone_number ? last_number() : 0;

	/* a file per number: not more files than the lists of children */
	if (!last || last < stop->alone_number ||
	    (size_t)(last - stop->alone_number) > stop->alone_threads.count ||
	    !were_looked_at(stop, last))
		return false;
	for (long number = stop->alone_number + 1; number <= last; number++) {
		if (!is_known(stop, (pid_t)number) && is_child(stop, (pid_t)number))
			return false;
	}
	return true;
}

struct error *sharers_take(struct stop *stop, bool *ret_found)
{
	struct error *err = NULL;

	*ret_found = false;
	if (is_still_alone(stop))
		return NULL;
	for (size_t i = 0; !err && i < stop->threads.count; i++)
		err = each_sharer(stop, stop->threads.items[i].tid, take_process, ret_found);
	return err;
}
