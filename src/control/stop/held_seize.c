/*
 * held_seize.c - make threads ours, and ask them to stop.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/proc/proc_status.h"
#include "control/proc/unreleased.h"
#include "held_rewind.h"
#include "syscall_timeout.h"

#define HELD_OPTIONS (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC)
#define HELD_LOOK_US 10000
#define HELD_TRIES 50 /* to seize a thread, where nothing explains the refusal */

/* waitid reports stops too, whatever it is asked for: WNOWAIT leaves them for the main line. */
static bool see_end(pid_t tid, int *ret_status)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) ||
	    (info.si_code != CLD_EXITED && info.si_code != CLD_KILLED &&
	     info.si_code != CLD_DUMPED))
		return false;
	return waitpid(tid, ret_status, WNOHANG | __WALL) == tid;
}

/* A new thread is ours from birth, but unknown to us if its creator was killed before it could
 * report the clone. */
static void see_unknown_ends(const struct stop *stop)
{
	char buffer[4096] __attribute__((aligned(8)));
	int fd = stop->task_fd < 0 ? -1 :
				     openat(stop->task_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ssize_t n;

	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			pid_t tid = (pid_t)atoi(entry->d_name);
			int status;

			if (tid > 0 && tid != stop->proc->pid)
				(void)see_end(tid, &status);
			at += entry->d_reclen;
		}
	}
	if (fd >= 0)
		close(fd);
}

/*
 * PTRACE_SEIZE blocks while a thread of the process is in execve. That execve waits until all other
 * threads are gone, and ours are gone only when we have seen their end. Without this function both
 * would wait for ever. Runs in a signal handler, while the main line is in PTRACE_SEIZE.
 */
static void see_ends(void *data)
{
	struct stop *stop = data;

	/* with thousands of threads a look takes longer than a tick: let the main line go on */
	if (held_now_us() < stop->looked_us + HELD_LOOK_US)
		return;
	unreleased_settle();
	for (size_t i = 0; i < stop->threads.count; i++) {
		struct held *held = &stop->threads.items[i];
		int status = 0;

		if (!held->adopted && held->state != HELD_GONE && see_end(held->tid, &status))
			held_note_end(stop, held, status);
	}
	see_unknown_ends(stop);
	stop->looked_us = held_now_us();
}

unsigned held_options(const struct stop *stop)
{
	return HELD_OPTIONS |
	       (stop->task_fd >= 0 ? PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK : 0);
}

static long seize(struct stop *stop, pid_t tid)
{
	unsigned options = held_options(stop);

	stop->looked_us = held_now_us();
	syscall_timeout_do(see_ends, stop);
	long failed = ptrace(PTRACE_SEIZE, tid, 0, options);
	int number = errno;
	syscall_timeout_do(NULL, NULL);
	errno = number;
	return failed;
}

/* *ret_again: nothing explains the failure, so another try may succeed. */
static struct error *seize_failed(struct stop *stop, pid_t tid, bool sharer, int number,
				  bool *ret_ours, bool *ret_again)
{
	struct thread_status status;
	struct thread_stat stat;
	struct error *err;

	*ret_ours = *ret_again = false;
	if (number == ESRCH)
		return NULL;
	if (number != EPERM)
		return error_errno(number, "cannot stop thread %d of process %d", tid,
				   stop->proc->pid);
	if ((err = proc_status_read_stat(tid, tid, &stat))) {
		error_free(err); /* it has ended */
		return NULL;
	}
	if (stat.state == 'Z' || stat.state == 'X')
		return NULL;
	/* first: up to here its late stop may come, and then it is let go and nobody's */
	bool taken = unreleased_take(tid);
	if (!taken && (err = proc_status_read(tid, tid, &status))) {
		error_free(err);
		return NULL;
	}
	if (taken || status.tracer == gettid()) {
		*ret_ours = true;
		return held_note(stop, (struct held){ .tid = tid, .sharer = sharer });
	}
	if (status.tracer)
		return error_new(ERROR_FAILED, "process %d is already traced by pid %d",
				 stop->proc->pid, status.tracer);
	*ret_again = true;
	return error_new(ERROR_NOT_PERMITTED,
			 "not permitted to stop thread %d of process %d: run as root", tid,
			 stop->proc->pid);
}

struct error *held_seize(struct stop *stop, pid_t tid, bool sharer, bool *ret_ours)
{
	unreleased_prepare_by(held_rewind_late);
	/* the thread itself, and a child that each thread may be making */
	if (!unreleased_reserve(2 * (stop->threads.count + 1)))
		return error_new(ERROR_FAILED, "out of memory");
	for (unsigned round = 0; seize(stop, tid); round++) {
		bool again;
		struct error *err = seize_failed(stop, tid, sharer, errno, ret_ours, &again);

		if (!again || round >= HELD_TRIES)
			return err;
		/* a leader that an exec is about to replace can't be seized; its successor can */
		error_free(err);
		held_nap(round);
	}
	*ret_ours = true;
	return held_note(stop, (struct held){ .tid = tid, .sharer = sharer });
}

static void ask(struct held *held)
{
	if (held->asked)
		return;
	held->since_us = held_now_us();
	if (held->state == HELD_SEIZED)
		ptrace(PTRACE_INTERRUPT, held->tid, 0, 0);
	held->asked = true;
}

/* (S17) */
void held_ask(struct stop *stop)
{
	for (int leader = 0; leader < 2; leader++) {
		for (size_t i = 0; i < stop->threads.count; i++) {
			struct held *held = &stop->threads.items[i];

			if ((held->tid == stop->proc->pid) == leader)
				ask(held);
		}
	}
}
