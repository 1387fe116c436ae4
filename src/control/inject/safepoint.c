/*
 * safepoint.c
 *
 * Seen: openat, read, pread64, fstat and close come from inside dlopen with its lock held, which is
 * recursive: a call made there succeeds and corrupts. Those are calls on files; a `read` that sleeps on a pipe, a
 * socket or a terminal is the program's own. Locks (futex) are not on the list: nobody can tell which one it is.
 */
#include "safepoint.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../base/cleanup.h"
#include "../proc/status.h"
#include "gadget.h"
#include "held.h"
#include "remote.h"

#define SAFEPOINT_STOP_MS 100
#define SAFEPOINT_ROOM (64u << 10) /* what must be left of a thread's stack */
#define SAFEPOINT_STACK_MAX (1u << 20) /* bytes of stack that are looked at; a deeper one is no safe point */

static const long rests[] = {
	SYS_epoll_wait, SYS_epoll_pwait, 441 /* epoll_pwait2 */, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6,
	SYS_nanosleep, SYS_clock_nanosleep, SYS_accept, SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg,
	SYS_wait4, SYS_waitid, SYS_pause, SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
};

static void cleanup_maps(struct maps *maps)
{
	maps_free(maps);
}

static void cleanup_stop(struct stop **stop)
{
	stop_release(*stop, NULL);
}

bool safepoint_is_rest(const char *line, bool (*is_stream)(void *context, int fd), void *context)
{
	char *end;
	long number = strtol(line, &end, 10);

	if (end == line || *end != ' ')
		return false; /* "running", or in the kernel for another reason */
	for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++) {
		if (rests[i] == number)
			return true;
	}
	return number == SYS_read && is_stream(context, (int)strtoul(end, NULL, 16));
}

/* ---- which thread ----------------------------------------------------------------------------- */

static bool is_stream(void *context, int fd)
{
	const struct proc *proc = context;
	static const char *const streams[] = { "pipe:", "socket:", "/dev/pts/", "/dev/tty" };
	char path[64], target[PATH_MAX];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", proc->pid, fd);
	ssize_t length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		if (!strncmp(target, streams[i], strlen(streams[i])))
			return true;
	}
	return false;
}

static bool is_at_rest(struct proc *proc, pid_t tid)
{
	char name[64];
	_cleanup_close_ int fd = -1;

	snprintf(name, sizeof(name), "task/%d/syscall", tid);
	fd = status_open(proc->pid, name, O_RDONLY);
	_cleanup_free_ char *line = fd < 0 ? NULL : status_slurp(fd, NULL);
	return line && safepoint_is_rest(line, is_stream, proc);
}

static bool is_loader(const struct mapping *mapping)
{
	const char *name = strrchr(mapping->path, '/');

	return (mapping->prot & PROT_EXEC) && name && !strncmp(name, "/ld-", 4);
}

/* Is there a call directly before that address? E8 rel32, or FF /2 in its shorter forms. */
static bool follows_call(struct proc *proc, uint64_t address)
{
	uint8_t before[8];

	_cleanup_error_ struct error *error = mem_read(proc, taddr_of(address - sizeof(before)), before, sizeof(before));
	if (error)
		return true;
	if (before[3] == 0xe8)
		return true;
	for (size_t i = 1; i < 7; i++) {
		if (before[i] == 0xff && (before[i + 1] & 0x38) == 0x10)
			return true;
	}
	return false;
}

/* No word on the stack that could be a return address into the loader, or a signal frame's. */
static bool is_clean(struct proc *proc, uint64_t rsp)
{
	_cleanup_(cleanup_maps) struct maps maps = { 0 };
	struct gadgets gadgets = { 0 };
	_cleanup_error_ struct error *error = maps_read(proc, &maps);

	if (error || (error = gadget_find(proc, &maps, &gadgets)))
		return false;
	const struct mapping *stack = maps_find(&maps, taddr_of(rsp));
	if (!stack || stack->end.v - rsp > SAFEPOINT_STACK_MAX ||
	    (strcmp(stack->path, "[stack]") && rsp - stack->start.v < SAFEPOINT_ROOM))
		return false;
	size_t count = (stack->end.v - rsp) / 8;
	_cleanup_free_ uint64_t *words = calloc(count + 1, 8);
	if (!words || (error = mem_read(proc, taddr_of(rsp), words, count * 8)))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct mapping *at = maps_find(&maps, taddr_of(words[i]));

		if (words[i] == gadgets.restorer.v || (at && is_loader(at) && follows_call(proc, words[i])))
			return false;
	}
	return true;
}

/* ---- the call --------------------------------------------------------------------------------- */

static struct error *call_held(struct stop *stop, taddr function, const uint64_t args[3])
{
	struct remote *remote = NULL;
	struct error *error = remote_begin(stop, &remote);

	if (error)
		return error;
	error = remote_function(remote, function, args);
	struct error *ending = remote_end(remote);
	if (error)
		error_free(ending);
	return error ? error : ending;
}

/* On that thread, if it is at a safe point now. */
static struct error *try_thread(struct proc *proc, pid_t tid, taddr function, const uint64_t args[3],
				bool *ret_done)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;

	if (!is_at_rest(proc, tid))
		return NULL;
	struct error *error = stop_thread(proc, tid, SAFEPOINT_STOP_MS, &stop);
	if (error && error_kind(error) != ERROR_GONE) {
		error_free(error); /* it may be elsewhere by now */
		return NULL;
	}
	/* Stopped, it still shows the call it slept in; what it was woken for is shown as "running". */
	if (error || !is_at_rest(proc, tid) || !is_clean(proc, stop_thread_rsp(stop, 0).v))
		return error;
	*ret_done = true;
	return call_held(stop, function, args);
}

struct error *safepoint_call(struct proc *proc, struct stop *held, taddr function, const uint64_t args[3],
			     unsigned timeout_ms)
{
	uint64_t deadline = held_now_us() + (uint64_t)timeout_ms * 1000;
	struct error *error = NULL;
	bool done = false;

	if (held && !held->threads.items[0].regs.fs_base)
		return error_new(ERROR_REFUSED, "the program's start code has not run yet");
	if (held)
		return call_held(held, function, args);
	for (unsigned round = 0; !error && !done && (!round || held_now_us() < deadline); round++) {
		struct tids tids = { 0 };

		error = threads_list(proc, &tids);
		for (size_t i = 0; i < tids.count && !error && !done; i++)
			error = try_thread(proc, tids.items[i], function, args, &done);
		vec_free(&tids);
		if (!error && !done)
			held_nap(round);
	}
	if (!error && !done)
		error = error_new(ERROR_REFUSED,
				  "no thread of process %d sleeps where a function of it can be called (in poll, "
				  "nanosleep, accept and the like)", proc->pid);
	return error;
}
