/*
 * remote_run.c - the borrowed thread goes on, from one stop to the next.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "remote_state.h"

#define REMOTE_SPINS 100u /* looks of half a microsecond each */
#define REMOTE_CALL_US 10000000 /* for one call; a longer one is a failure */

static struct error *note_end(struct remote *remote, int status)
{
	struct held *held = &remote->stop->threads.items[remote->index];

	held->state = HELD_GONE;
	if (held->tid == remote->stop->proc->pid) {
		remote->stop->proc->reaped = true;
		remote->stop->proc->reaped_status = status;
	}
	return held_gone(remote->stop);
}

/* Waits for the thread's report. The first moments without sleeping, if there is a processor for
 * the thread beside ours: most calls take less time than a processor needs to wake up. A thread
 * that doesn't report in this time is likely to wait for our processor, now and at each further
 * call. */
static void await_report(struct remote *remote, unsigned round)
{
	if (round >= REMOTE_SPINS)
		remote->spins = false;
	if (!remote->spins)
		held_block(remote_thread(remote), round);
}

/* Asks for an event stop each time, as the kernel forgets the request with any other stop. Lets
 * SIGSTOP through, which no mask holds back: the group-stop that follows doesn't keep us from going
 * on. */
struct error *remote_run_until(struct remote *remote, int request, int wanted, bool event)
{
	uint64_t deadline = held_now_us() + REMOTE_CALL_US;
	pid_t tid = remote_thread(remote);
	int status, signal = 0;

	for (;;) {
		if ((event && ptrace(PTRACE_INTERRUPT, tid, 0, 0)) ||
		    ptrace((enum __ptrace_request)request, tid, 0, signal))
			return remote_ptrace_failed(remote, "go on with a system call");
		for (unsigned round = 0;; round++) {
			pid_t got = held_peek(tid, &status);

			if (got == tid)
				break;
			if (got < 0 && errno != EINTR)
				return held_gone(remote->stop);
			if (held_now_us() > deadline)
				return error_new(ERROR_FAILED,
						 "a system call of thread %d doesn't return", tid);
			await_report(remote, round);
		}
		if (!WIFSTOPPED(status))
			return note_end(remote, status);
		if (status >> 8 == wanted || (event && status >> 16 == PTRACE_EVENT_STOP))
			return NULL;
		signal = status >> 16 ? 0 : WSTOPSIG(status) & 0x7f;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			signal = 0;
	}
}

struct error *remote_run_enter(struct remote *remote, const struct user_regs_struct *regs,
			       uint64_t open)
{
	uint64_t mask = ~open | remote->mask;
	bool masks = !remote->entered || remote->paused;

	/* first: with our registers the thread makes a call of ours, even if we are killed */
	if (!remote->entered && remote_dispatch_is_on(remote, remote->index) &&
	    !remote_dispatch_set_aside(remote))
		return remote_ptrace_failed(remote, "set the dispatch of system calls");
	if (ptrace(PTRACE_SETREGS, remote_thread(remote), 0, regs))
		return remote_ptrace_failed(remote, "set the registers");
	if (masks && ptrace(PTRACE_SETSIGMASK, remote_thread(remote), sizeof(mask), &mask))
		return remote_ptrace_failed(remote, "set the signal mask");
	remote->entered = true;
	remote->paused = false;
	return NULL;
}
