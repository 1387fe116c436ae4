/*
 * stop_one.c - hold a single thread that can be borrowed, or one that is in a ptrace stop already.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "control/base/interrupt.h"
#include "control/proc/proc_status.h"
#include "fitness.h"
#include "starved.h"
#include "stop_parts.h"

#define STOP_ONE_US 100000 /* wait for one candidate */

/* ---- choice ---------------------------------------------------------------------------------- */

/* 2: asleep in a system call, the best choice; 1: can stop; 0: can't. */
static unsigned rank(const struct proc *proc, pid_t tid)
{
	struct thread_stat stat;
	struct error *gone = proc_status_read_stat(proc->pid, tid, &stat);

	error_free(gone);
	if (gone || strchr("ZXxD", stat.state))
		return 0;
	return stat.state == 'S' || stat.state == 'T' ? 2 : 1;
}

/* Holds the thread, and lets it go again unless it is fit: *ret_fit. */
static struct error *try_one(struct stop *stop, pid_t tid, uint64_t deadline_us, bool *ret_fit)
{
	uint64_t limit = held_now_us() + STOP_ONE_US;
	bool ours = false;
	struct error *err;

	*ret_fit = false;
	if (tid == stop->proc->held_tid) {
		if ((err = stop_take_held(stop, tid)))
			return err;
	} else {
		if ((err = held_seize(stop, tid, false, &ours)) || !ours)
			return err;
		held_ask(stop);
		starved_note(&stop->threads.items[0]);
		if ((err = held_wait(stop, 0, limit < deadline_us ? limit : deadline_us)))
			return err;
	}
	if (stop->executed)
		return held_gone(stop);
	assert(stop->threads.count);
	*ret_fit = stop->threads.items[0].state == HELD_STOPPED && fitness_of(stop, 0) &&
		   !fitness_is_trapped(tid);
	if (*ret_fit)
		return NULL;
	stop->starved |= starved_is(&stop->threads.items[0], STOP_ONE_US); /* S13 */
	held_release(stop, 0);
	held_compact(stop);
	return NULL;
}

static struct error *try_each(struct stop *stop, const struct tids *tids, uint64_t deadline_us,
			      bool *ret_fit)
{
	struct error *err = NULL;

	*ret_fit = false;
	for (unsigned wanted = 2; wanted; wanted--) {
		for (size_t i = 0; i < tids->count && !err && !*ret_fit; i++) {
			if ((held_now_us() > deadline_us && i) || stop_is_quit(stop))
				return NULL;
			if (rank(stop->proc, tids->items[i]) == wanted)
				err = try_one(stop, tids->items[i], deadline_us, ret_fit);
		}
	}
	return err;
}

static struct error *none_fit(const struct proc *proc)
{
	return error_new(
		ERROR_FAILED,
		"cannot borrow a thread of process %d: all are in uninterruptible sleep or in code "
		"that can't be interrupted; try again later",
		proc->pid);
}

/* Chooses among these threads, or (NULL) among all. */
static struct error *hold_one(struct proc *proc, const struct tids *among, unsigned timeout_ms,
			      bool quits, struct stop **ret_stop)
{
	uint64_t time_us = (uint64_t)timeout_ms * 1000, deadline = held_now_us() + time_us;
	uint64_t last = deadline + (STARVED_TIMES - 1) * time_us;
	struct stop *stop = NULL;
	bool fit = false;
	struct error *err = stop_new(proc, false, &stop);

	if (err)
		return err;
	stop->quits = quits;
	stop_raise(stop);
	while (!err && !fit) {
		struct tids tids = { 0 };

		stop->starved = false;
		if (!among)
			err = threads_list(proc, &tids);
		if (!err)
			err = try_each(stop, among ? among : &tids, deadline, &fit);
		vec_free(&tids);
		if (!err && !fit && quits)
			err = interrupt_check();
		if (!err && !fit && stop->starved && held_now_us() > deadline &&
		    held_now_us() < last)
			deadline = held_now_us() + time_us;
		if (!err && !fit && held_now_us() > deadline)
			err = none_fit(proc);
		if (!err && !fit)
			usleep(STOP_PAUSE_US);
	}
	if (!err)
		err = stop_check_program(stop);
	if (err) {
		stop_release(stop, NULL);
		return err;
	}
	mem_set_stopped_thread(proc, stop->threads.items[0].tid);
	*ret_stop = stop;
	return NULL;
}

struct error *stop_one(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop)
{
	return hold_one(proc, NULL, timeout_ms, false, ret_stop);
}

struct error *stop_one_or_quit(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop)
{
	return hold_one(proc, NULL, timeout_ms, true, ret_stop);
}

struct error *stop_thread(struct proc *proc, pid_t tid, unsigned timeout_ms, struct stop **ret_stop)
{
	return hold_one(proc, &(struct tids){ .items = &tid, .count = 1 }, timeout_ms, false,
			ret_stop);
}

/* ---- adoption -------------------------------------------------------------------------------- */

/* Takes the thread from any ptrace stop to an event stop (S1), without executing an instruction. */
static struct error *to_event_stop(struct stop *stop, pid_t tid)
{
	siginfo_t info;
	int signal = 0;

	if (ptrace(PTRACE_GETSIGINFO, tid, 0, &info))
		/* EINVAL: a group-stop, which is an event stop */
		return errno == ESRCH ? held_gone(stop) : NULL;
	if (info.si_code >> 8 == PTRACE_EVENT_STOP)
		return NULL;
	bool report =
		info.si_signo == SIGTRAP && (info.si_code >> 8 > 0 || info.si_code == SIGTRAP ||
					     info.si_code == (SIGTRAP | 0x80));
	if (!report)
		signal = info.si_signo; /* a signal-delivery-stop: deliver it */
	ptrace(PTRACE_INTERRUPT, tid, 0, 0);
	ptrace(PTRACE_CONT, tid, 0, signal);
	stop->threads.items[0].state = HELD_SEIZED;
	struct error *err = held_wait(stop, 0, held_now_us() + STOP_ONE_US * 10);
	if (err)
		return err;
	return stop->threads.items[0].state == HELD_STOPPED ? NULL : held_gone(stop);
}

struct error *stop_adopt(struct proc *proc, pid_t tid, struct stop **ret_stop)
{
	struct stop *stop = NULL;
	struct error *err = stop_new(proc, false, &stop);

	if (err)
		return err;
	stop_raise(stop);
	err = stop_take_held(stop, tid);
	if (!err)
		err = to_event_stop(stop, tid);
	if (err) {
		stop_disown(stop);
		return err;
	}
	assert(stop->threads.items[0].state == HELD_STOPPED); /* S1 */
	stop->threads.items[0].adopted = false;
	mem_set_stopped_thread(proc, tid);
	*ret_stop = stop;
	return NULL;
}
