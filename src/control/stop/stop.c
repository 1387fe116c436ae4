#include "stop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "control/proc/proc_status.h"
#include "control/proc/unreleased.h"
#include "realtime.h"
#include "restart.h"
#include "rseq.h"
#include "held_rewind.h"
#include "stop_parts.h"
#include "syscall_timeout.h"

/* ---- begin and end --------------------------------------------------------------------------- */

struct error *stop_new(struct proc *proc, bool all, struct stop **ret_stop)
{
	struct stop *stop = calloc(1, sizeof(*stop));
	char path[64];

	if (!stop)
		return error_new(ERROR_FAILED, "out of memory");
	*stop = (struct stop){ .proc = proc, .task_fd = -1 };
	held_rewind_note_verdict(proc);
	snprintf(path, sizeof(path), "/proc/%d/task", proc->pid);
	if (all)
		stop->task_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int number = all && stop->task_fd < 0 ? errno : 0;
	if (number || !proc_is_alive(proc)) {
		/* a living process that can't be looked at isn't gone */
		bool gone = !number || number == ENOENT || number == ESRCH || !proc_is_alive(proc);
		struct error *err = gone ? held_gone(stop) :
					   error_errno(number,
						       "cannot list the threads of process %d",
						       proc->pid);

		cleanup_close(&stop->task_fd);
		free(stop);
		return err;
	}
	syscall_timeout_begin();
	*ret_stop = stop;
	return NULL;
}

void stop_raise(struct stop *stop)
{
	if (!stop->raised)
		realtime_begin();
	stop->raised = true;
}

static void let_go(struct stop *stop, size_t index)
{
	const struct held *held = &stop->threads.items[index];

	if (held->tid == stop->proc->held_tid && !held->adopted)
		stop->proc->held_tid = 0;
	held_release(stop, index);
}

/* Threads that compute go first (S16). */
static void let_computing_go(struct stop *stop)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		const struct held *held = &stop->threads.items[i];

		if (held->computes && held->tid != stop->proc->held_tid)
			held_let_run(stop, i);
	}
}

/* Of the others, the leader goes last: if all were killed, its end shows only when the others are
 * gone. */
void stop_let_go(struct stop *stop, bool only_stopped)
{
	mem_set_stopped_thread(stop->proc, 0);
	let_computing_go(stop);
	for (int leader = 0; leader < 2; leader++) {
		for (size_t i = 0; i < stop->threads.count; i++) {
			const struct held *held = &stop->threads.items[i];

			if ((held->tid == stop->proc->pid) == leader &&
			    (!only_stopped || held->state == HELD_STOPPED))
				let_go(stop, i);
		}
	}
	held_compact(stop);
}

void stop_release(struct stop *stop, uint64_t *ret_us)
{
	if (!stop)
		return;
	assert(!stop->remote); /* S2 */
	stop_let_go(stop, false);
	if (ret_us)
		*ret_us = stop->longest_us;
	syscall_timeout_end();
	if (stop->raised)
		realtime_end();
	cleanup_close(&stop->task_fd);
	vec_free(&stop->threads);
	vec_free(&stop->alone_threads);
	vec_free(&stop->computing);
	free(stop);
	unreleased_settle();
}

struct error *stop_take_held(struct stop *stop, pid_t tid)
{
	struct held held = { .tid = tid, .adopted = true, .state = HELD_STOPPED,
			     .since_us = held_now_us() };

	if (ptrace(PTRACE_GETREGS, tid, 0, &held.regs)) {
		if (errno == ESRCH)
			return held_gone(stop);
		return error_errno(errno, "cannot read the registers of thread %d", tid);
	}
	if (!vec_push(&stop->threads, held))
		return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

bool stop_is_quit(const struct stop *stop)
{
	return stop->quits && interrupt_requested();
}

struct error *stop_check_program(struct stop *stop)
{
	assert(stop->threads.count);
	errno = 0;
	bool same = proc_runs_same(stop->proc, stop->threads.items[0].tid);
	if (!same && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return error_errno(errno, "cannot look which program process %d runs",
				   stop->proc->pid);
	stop->executed |= !same;
	return stop->executed ? held_gone(stop) : NULL;
}

void stop_disown(struct stop *stop)
{
	if (!stop)
		return;
	for (size_t i = 0; i < stop->threads.count; i++)
		stop->threads.items[i].adopted = true;
	stop_release(stop, NULL);
}

/* ---- held threads
 * ----------------------------------------------------------------------------- */

size_t stop_thread_count(const struct stop *stop)
{
	return stop->threads.count;
}

static const struct held *thread_at(const struct stop *stop, size_t index)
{
	assert(index < stop->threads.count);
	return &stop->threads.items[index];
}

pid_t stop_thread_tid(const struct stop *stop, size_t index)
{
	return thread_at(stop, index)->tid;
}

taddr stop_thread_rip(const struct stop *stop, size_t index)
{
	return taddr_of(thread_at(stop, index)->regs.rip);
}

taddr stop_thread_rsp(const struct stop *stop, size_t index)
{
	return taddr_of(thread_at(stop, index)->regs.rsp);
}

uint64_t stop_thread_block(const struct stop *stop, size_t index)
{
	return thread_at(stop, index)->regs.fs_base;
}

bool stop_thread_restarts(const struct stop *stop, size_t index)
{
	return restart_by_kernel(&thread_at(stop, index)->regs);
}

bool stop_thread_rewound(const struct stop *stop, size_t index)
{
	return thread_at(stop, index)->rewound;
}

/* May the thread be in a call that waits with a mask of its own (sigsuspend, ppoll, ...)? Not in
 * its own code, nor in the calls that threads sleep in as a rule. */
static bool may_wait_masked(const struct held *held)
{
	static const long plain[] = {
		SYS_read, SYS_write, SYS_poll, SYS_select, SYS_nanosleep, SYS_clock_nanosleep,
		SYS_futex, SYS_epoll_wait, SYS_accept, SYS_accept4, SYS_recvfrom, SYS_recvmsg,
		SYS_wait4, SYS_waitid, SYS_restart_syscall,
	};
	long number = (long)(held->rewound ? held->regs.rax : held->regs.orig_rax);

	if (number < 0)
		return false;
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (number == plain[i])
			return false;
	}
	return true;
}

/* ptrace tells the mask that the thread has after its call. The mask of now is in a file, which
 * takes ten times as long, and all threads are held. */
struct error *stop_thread_mask(const struct stop *stop, size_t index, uint64_t *ret_mask)
{
	const struct held *held = thread_at(stop, index);
	struct thread_status status = { 0 };
	uint64_t later = 0;
	struct error *error = may_wait_masked(held) ?
				      proc_status_read(stop->proc->pid, held->tid, &status) :
				      NULL;

	if (!error && ptrace(PTRACE_GETSIGMASK, held->tid, sizeof(later), &later))
		error = error_errno(errno, "cannot read the signal mask of thread %d", held->tid);
	if (!error)
		*ret_mask = status.blocked | later;
	return error;
}

bool stop_thread_trapped(const struct stop *stop, size_t index)
{
	struct thread_status status;
	_cleanup_error_ struct error *error =
		proc_status_read(stop->proc->pid, thread_at(stop, index)->tid, &status);

	return !error && (status.pending & 1ULL << (SIGTRAP - 1));
}

bool stop_thread_is_plain(const struct stop *stop, size_t index)
{
	return thread_at(stop, index)->plain;
}

bool stop_has_sharers(const struct stop *stop)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (stop->threads.items[i].sharer)
			return true;
	}
	return false;
}

struct error *stop_thread_set_rip(struct stop *stop, size_t index, taddr rip)
{
	struct user_regs_struct regs = thread_at(stop, index)->regs;
	taddr abort_at;

	regs.rip = rip.v;
	if (rseq_inside(stop, index, &abort_at))
		regs.rip = abort_at.v;
	return held_set_regs(stop, index, &regs);
}
