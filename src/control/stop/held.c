/*
 * held.c - hold one thread: from its first report to PTRACE_DETACH. It is seized in held_seize.c.
 *
 * PTRACE_INTERRUPT asks for a PTRACE_EVENT_STOP. Until the thread gets there it can report other
 * stops first. Each is let through, and the request repeated, because the kernel forgets it with
 * any stop:
 *
 *   signal-delivery-stop   the signal is delivered there and then: its handler's frame is set up
 *                          (or its default happens), and the thread stops at the handler's first
 *                          instruction
 *   group-stop             is an event stop as well; detaching leaves the process stopped
 *   clone, fork            the kernel has attached us to the child: noted, so that no child is
 *                          missed
 *   exec                   the caller's knowledge of the process is void: an error
 *   end                    forgotten
 */
#include "held.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/fence/fence.h"
#include "control/fence/user_dispatch.h"
#include "control/proc/unreleased.h"
#include "control/proc/proc_status.h"
#include "held_rewind.h"
#include "syscall_timeout.h"

#define HELD_KCMP_VM 1
#define HELD_REAP_MS 1000

uint64_t held_now_us(void)
{
	return now_ns() / 1000;
}

void held_block(pid_t tid, unsigned round)
{
	siginfo_t info;

	if (syscall_timeout_is_running())
		waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL);
	else
		held_nap(round);
}

void held_nap(unsigned round)
{
	unsigned shift = round / 16 < 7 ? round / 16 : 7;
	struct timespec nap = { .tv_nsec = 10000L << shift };

	nanosleep(&nap, NULL);
}

struct error *held_gone(const struct stop *stop)
{
	if (stop->executed)
		return error_new(ERROR_GONE, "process %d has begun another program",
				 stop->proc->pid);
	return error_new(ERROR_GONE, "process %d has ended", stop->proc->pid);
}

struct held *held_find(struct stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (stop->threads.items[i].tid == tid)
			return &stop->threads.items[i];
	}
	return NULL;
}

struct error *held_note(struct stop *stop, struct held held)
{
	unreleased_take(held.tid);
	if (held_find(stop, held.tid) || vec_push(&stop->threads, held))
		return NULL;
	ptrace(PTRACE_INTERRUPT, held.tid, 0, 0); /* it is let go of in its stop (H31) */
	unreleased_add(held.tid, false);
	return error_new(ERROR_FAILED, "out of memory");
}

void held_note_end(struct stop *stop, struct held *held, int status)
{
	held->state = HELD_GONE;
	if (held->tid != stop->proc->pid)
		return;
	stop->proc->reaped = true;
	stop->proc->reaped_status = status;
}

/* Notes a child that the kernel attached us to: a thread, a process that shares the memory, or a
 * stray. */
static struct error *note_child(struct stop *stop, pid_t parent)
{
	unsigned long child = 0;
	char name[24];

	if (ptrace(PTRACE_GETEVENTMSG, parent, 0, &child) || !child)
		return NULL;
	snprintf(name, sizeof(name), "%lu", child);
	bool thread = stop->task_fd >= 0 && !faccessat(stop->task_fd, name, F_OK, 0);
	bool sharer = !thread && !syscall(SYS_kcmp, parent, child, HELD_KCMP_VM, 0, 0);
	return held_note(stop, (struct held){ .tid = (pid_t)child,
					      .sharer = sharer,
					      .asked = true,
					      .since_us = held_now_us(),
					      .stray = !thread && !sharer });
}

/* ---- stopping -------------------------------------------------------------------------------- */

struct error *held_set_regs(struct stop *stop, size_t index, const struct user_regs_struct *regs)
{
	struct held *held = &stop->threads.items[index];

	assert(held->state == HELD_STOPPED && !stop->remote); /* S1, S2 */
	if (ptrace(PTRACE_SETREGS, held->tid, 0, regs)) {
		if (errno == ESRCH)
			return held_gone(stop);
		return error_errno(errno, "cannot set the registers of thread %d", held->tid);
	}
	held->regs = *regs; /* S3 */
	return NULL;
}

bool held_has_signal(pid_t tid, uint64_t among)
{
	uint64_t mask = 0;
	siginfo_t infos[8];

	ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask);
	for (uint32_t shared = 0; shared < 2; shared++) {
		struct __ptrace_peeksiginfo_args args = { .flags = shared, .nr = 8 };
		long n;

		while ((n = ptrace(PTRACE_PEEKSIGINFO, tid, &args, infos)) > 0) {
			for (long i = 0; i < n; i++) {
				if (among & ~mask & 1ULL << (infos[i].si_signo - 1))
					return true;
			}
			args.off += (uint64_t)n;
		}
	}
	return false;
}

static bool is_plain(pid_t tid)
{
	struct user_dispatch dispatch;

	return filters_has_none(tid) && !user_dispatch_read(tid, &dispatch);
}

static struct error *stopped(struct stop *stop, size_t index)
{
	struct held *held = &stop->threads.items[index];

	if (held->stray) {
		ptrace(PTRACE_DETACH, held->tid, 0, 0);
		held->state = HELD_GONE;
		return NULL;
	}
	if (ptrace(PTRACE_GETREGS, held->tid, 0, &held->regs)) {
		if (errno == ESRCH) /* killed just now: waitpid will report its end */
			return NULL;
		return error_errno(errno, "cannot read the registers of thread %d", held->tid);
	}
	held->state = HELD_STOPPED; /* S1, S3 */
	held->rewound = false;
	held->plain = stop->asks && !held->sharer && is_plain(held->tid);
	held_rewind_call(stop, index);
	return NULL;
}

static struct error *on_stop(struct stop *stop, size_t index, int status)
{
	pid_t tid = stop->threads.items[index].tid;
	int event = status >> 16, signal = WSTOPSIG(status);
	struct error *err = NULL;

	switch (event) {
	case PTRACE_EVENT_STOP:
		return stopped(stop, index);
	case PTRACE_EVENT_EXEC:
		stop->executed |= !stop->threads.items[index].sharer;
		ptrace(PTRACE_DETACH, tid, 0, 0);
		stop->threads.items[index].state = HELD_GONE;
		return NULL;
	case PTRACE_EVENT_CLONE:
	case PTRACE_EVENT_FORK:
		err = note_child(stop, tid);
		break;
	}
	if (event || signal == (SIGTRAP | 0x80))
		signal = 0;
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	ptrace(PTRACE_CONT, tid, 0, signal);
	return err;
}

/*
 * An execve ends all other threads, and its thread goes on under the leader's id. If that thread
 * was ours, it still is and reports the exec under the leader's id. If it wasn't, the leader that
 * we had is gone without a report.
 */
static struct error *on_takeover(struct stop *stop, size_t index)
{
	const struct held *held = &stop->threads.items[index];
	pid_t leader = stop->proc->pid;
	bool renamed = !held->sharer && held->tid != leader && !held_find(stop, leader);

	stop->executed |= held->tid == leader && proc_is_alive(stop->proc);
	stop->threads.items[index].state = HELD_GONE;
	if (renamed && stop->task_fd >= 0)
		return held_note(
			stop,
			(struct held){ .tid = leader, .asked = true, .since_us = held_now_us() });
	if (renamed)
		unreleased_add(leader, stop->proc->own_child);
	return NULL;
}

static bool is_foreign(pid_t tid)
{
	struct thread_status status;
	_cleanup_error_ struct error *gone = proc_status_read(tid, tid, &status);

	return !gone && status.tracer != gettid();
}

void held_check_replaced(struct stop *stop, struct held *held)
{
	/* twice: the first look may fall into the moment in which one of our threads replaces it */
	if (held->adopted || held->state != HELD_SEIZED || !is_foreign(held->tid) ||
	    !is_foreign(held->tid))
		return;
	stop->executed |= held->tid == stop->proc->pid;
	held->state = HELD_GONE;
}

/* (S9) Where no signal is at stake the report is taken: the kernel refuses every request to a
 * thread whose exec nobody has seen. */
pid_t held_peek(pid_t tid, int *ret_status)
{
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL))
		return -1;
	if (!info.si_pid)
		return 0;
	int event = info.si_status >> 8;
	if ((info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) ||
	    (event && event != PTRACE_EVENT_STOP))
		return waitpid(tid, ret_status, WNOHANG | __WALL);
	*ret_status = W_STOPCODE(info.si_status);
	return tid;
}

struct error *held_look(struct stop *stop, size_t index)
{
	struct held *held = &stop->threads.items[index];
	int status;
	pid_t got = held_peek(held->tid, &status);

	if (got == 0 || (got < 0 && errno == EINTR))
		return NULL;
	if (got < 0)
		return on_takeover(stop, index);
	if (status >> 16 == PTRACE_EVENT_STOP && held->state == HELD_STOPPED)
		return NULL; /* the stop that it is in */
	if (WIFSTOPPED(status))
		return on_stop(stop, index, status);
	held_note_end(stop, held, status);
	return NULL;
}

struct error *held_wait(struct stop *stop, size_t index, uint64_t deadline_us)
{
	for (unsigned round = 0;; round++) {
		struct error *err = held_look(stop, index);

		if (err || stop->threads.items[index].state != HELD_SEIZED)
			return err;
		if (held_now_us() > deadline_us) {
			held_check_replaced(stop, &stop->threads.items[index]);
			return NULL;
		}
		held_block(stop->threads.items[index].tid, round);
	}
}

/* ---- release --------------------------------------------------------------------------------- */

/* The thread isn't in its stop any more. Either it was killed: then we must see its end before
 * anybody else can. Or an exec made it another thread, which runs and is still ours. */
static void reap(struct stop *stop, size_t index)
{
	struct held *held = &stop->threads.items[index];
	uint64_t deadline = held_now_us() + HELD_REAP_MS * 1000;

	held->state = HELD_SEIZED;
	ptrace(PTRACE_INTERRUPT, held->tid, 0, 0);
	for (unsigned round = 0; held->state == HELD_SEIZED; round++) {
		int status;
		pid_t got = held_peek(held->tid, &status);

		if (got < 0 && errno != EINTR)
			held->state = HELD_GONE;
		else if (got > 0 && !WIFSTOPPED(status))
			held_note_end(stop, held, status);
		else if (got > 0 &&
			 !ptrace(PTRACE_DETACH, held->tid, 0, status >> 16 ? 0 : WSTOPSIG(status)))
			held->state = HELD_GONE;
		else if (held_now_us() > deadline)
			break;
		else if (got == 0)
			held_block(held->tid, round);
	}
}

static void note_release(struct stop *stop, struct held *held)
{
	uint64_t us = held_now_us() - held->since_us;

	if (us > stop->longest_us)
		stop->longest_us = us;
	held->state = HELD_GONE;
}

void held_let_run(struct stop *stop, size_t index)
{
	struct held *held = &stop->threads.items[index];

	assert(!stop->remote); /* S2 */
	if (held->state != HELD_STOPPED || held->adopted || held->rewound)
		return;
	if (!ptrace(PTRACE_DETACH, held->tid, 0, 0))
		note_release(stop, held);
}

void held_release(struct stop *stop, size_t index)
{
	struct held *held = &stop->threads.items[index];

	assert(index < stop->threads.count);
	assert(!stop->remote); /* S2 */
	if (held->state == HELD_STOPPED && held->rewound)
		held_rewind_undo(stop, index);
	if (held->state == HELD_STOPPED && held->adopted) {
		int status;

		/* its owner waits for the next stop; or for its end, if that is what we took */
		if (waitpid(held->tid, &status, WNOHANG | __WALL) == held->tid &&
		    !WIFSTOPPED(status))
			held_note_end(stop, held, status);
		note_release(stop, held);
	}
	if (held->state == HELD_STOPPED) {
		if (ptrace(PTRACE_DETACH, held->tid, 0, 0) && errno == ESRCH)
			reap(stop, index);
		else
			note_release(stop, held);
	}
	if (held->state == HELD_SEIZED && !held->asked) /* it can be let go when it has stopped */
		ptrace(PTRACE_INTERRUPT, held->tid, 0, 0);
	if (held->state == HELD_SEIZED)
		unreleased_add(held->tid, held->tid == stop->proc->pid && stop->proc->own_child);
	held->state = HELD_GONE;
}

void held_compact(struct stop *stop)
{
	size_t kept = 0;

	for (size_t i = 0; i < stop->threads.count; i++) {
		if (stop->threads.items[i].state != HELD_GONE)
			stop->threads.items[kept++] = stop->threads.items[i];
	}
	stop->threads.count = kept;
}
