/*
 * Holding a whole process.
 *
 * Threads are seized and interrupted in passes over /proc/PID/task. A pass that finds nothing
 * new, made while all threads known so far stand still, is the last one: whoever could have made a
 * new thread is known. Clones of seized threads are ours from birth (PTRACE_O_TRACECLONE).
 *
 * A thread in uninterruptible sleep holds all of this up, and all other threads stand still
 * meanwhile. So such a pass is given up quickly, everything runs on, and it is tried again until
 * the caller's time is over.
 */
#include "stop.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/unreleased.h"
#include "control/proc/proc_status.h"
#include "held.h"
#include "realtime.h"
#include "fitness.h"
#include "restart.h"
#include "rseq.h"
#include "sharers.h"
#include "syscall_timeout.h"

/* for a thread in uninterruptible sleep, while all others are held */
#define STOP_PATIENCE_US 20000
#define STOP_CLOSELY_US 5000 /* after that the reason is looked for */
#define STOP_PAUSE_US 5000 /* between two tries */
#define STOP_ONE_US 100000 /* for one candidate */

static struct error *stop_new(struct proc *proc, bool all, struct stop **ret_stop)
{
	struct stop *stop = calloc(1, sizeof(*stop));
	char path[64];

	if (!stop)
		return error_new(ERROR_FAILED, "out of memory");
	*stop = (struct stop){ .proc = proc, .task_fd = -1, .since_us = held_now_us() };
	snprintf(path, sizeof(path), "/proc/%d/task", proc->pid);
	if (all)
		stop->task_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if ((all && stop->task_fd < 0) || !proc_is_alive(proc)) {
		struct error *err = held_gone(stop);

		cleanup_close(&stop->task_fd);
		free(stop);
		return err;
	}
	realtime_begin();
	syscall_timeout_begin();
	*ret_stop = stop;
	return NULL;
}

static void let_go(struct stop *stop, size_t index)
{
	const struct held *held = &stop->threads.items[index];

	if (held->tid == stop->proc->held_tid && !held->adopted)
		stop->proc->held_tid = 0;
	held_release(stop, index);
}

/* The leader last: should all have been killed, its end shows only when the others are gone. */
static void let_all_go(struct stop *stop, bool only_stopped)
{
	mem_set_stopped_thread(stop->proc, 0);
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
	let_all_go(stop, false);
	if (ret_us)
		*ret_us = held_now_us() - stop->since_us;
	syscall_timeout_end();
	realtime_end();
	cleanup_close(&stop->task_fd);
	vec_free(&stop->threads);
	free(stop);
	unreleased_settle();
}

static struct error *adopt(struct stop *stop, pid_t tid)
{
	struct held held = { .tid = tid, .adopted = true, .state = HELD_STOPPED };

	if (ptrace(PTRACE_GETREGS, tid, 0, &held.regs)) {
		if (errno == ESRCH)
			return held_gone(stop);
		return error_errno(errno, "cannot read the registers of thread %d", tid);
	}
	if (!vec_push(&stop->threads, held))
		return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

/* ---- all ------------------------------------------------------------------------------------- */

struct dirent_raw {
	uint64_t inode;
	int64_t next;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* Known ones are found in the order of the directory, which is mostly ours as well. */
static bool is_known(const struct stop *stop, pid_t tid, size_t *hint)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		size_t at = (*hint + i) % stop->threads.count;

		if (stop->threads.items[at].tid == tid) {
			*hint = at + 1;
			return true;
		}
	}
	return false;
}

static struct error *take_new(struct stop *stop, pid_t tid, size_t *hint, bool *found)
{
	bool ours = false;
	struct error *err = NULL;

	if (tid <= 0 || is_known(stop, tid, hint))
		return NULL;
	if (tid == stop->proc->held_tid) {
		ours = true;
		err = adopt(stop, tid);
	} else {
		err = held_seize(stop, tid, false, &ours);
	}
	*found |= ours;
	return err;
}

/* One pass over the directory. *ret_found: something new was seized. */
static struct error *take_threads(struct stop *stop, bool *ret_found)
{
	char buffer[32768] __attribute__((aligned(8)));
	struct error *err = NULL;
	size_t hint = 0;
	ssize_t n = 0;

	*ret_found = false;
	lseek(stop->task_fd, 0, SEEK_SET);
	while (!err && (n = syscall(SYS_getdents64, stop->task_fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; !err && at < n;) {
			const struct dirent_raw *entry = (const void *)(buffer + at);

			err = take_new(stop, atoi(entry->name), &hint, ret_found);
			at += entry->length;
		}
	}
	if (!err && n < 0 && errno != ENOENT && errno != ESRCH)
		err = error_errno(errno, "cannot list the threads of process %d", stop->proc->pid);
	return err;
}

/* Why doesn't it stop? An ended leader never will while others live. True: it is in uninterruptible
 * sleep. */
static bool is_stuck(struct stop *stop, struct held *held)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *gone = proc_status_read_stat(held->tid, held->tid, &stat);

	if (gone)
		return false;
	held->ended = stat.state == 'Z' && (held->sharer || held->tid == stop->proc->pid);
	held_check_replaced(stop, held);
	return stat.state == 'D';
}

/* Looks at each that still runs. The longer it lasts, the closer: at those that stand still as well
 * (they may have been killed, and whoever did that may wait for us to see it), and at what keeps
 * the others. */
static struct error *look_at_all(struct stop *stop, bool closely, pid_t *ret_running,
				 pid_t *ret_stuck)
{
	pid_t ended = 0;
	bool others = false;

	*ret_running = 0;
	*ret_stuck = 0;
	for (size_t i = 0; i < stop->threads.count; i++) {
		enum held_state state = stop->threads.items[i].state;
		struct error *err = NULL;

		if (state == HELD_SEIZED || (closely && state == HELD_STOPPED))
			err = held_look(stop, i);
		if (err)
			return err;
		struct held *held = &stop->threads.items[i];
		if (closely && held->state == HELD_SEIZED && is_stuck(stop, held))
			*ret_stuck = held->tid;
		others |= held->state == HELD_STOPPED;
		if (held->state == HELD_SEIZED)
			*(held->ended ? &ended : ret_running) = held->tid;
	}
	/* the end of all, or an exec: both are reported; or one that isn't known yet */
	if (!*ret_running && !others)
		*ret_running = *ret_stuck = ended;
	return NULL;
}

/* An ended leader of others that live on isn't waited for: its end shows when they are gone. */
static void leave_ended(struct stop *stop)
{
	bool others = false;

	for (size_t i = 0; i < stop->threads.count; i++)
		others |=
			stop->threads.items[i].state != HELD_GONE && !stop->threads.items[i].ended;
	for (size_t i = 0; others && i < stop->threads.count; i++) {
		struct held *held = &stop->threads.items[i];

		if (held->state != HELD_SEIZED || !held->ended)
			continue;
		unreleased_add(held->tid, held->tid == stop->proc->pid && stop->proc->own_child);
		held->state = HELD_GONE;
	}
}

/* Until all stand still. *ret_late: one that doesn't (its tid), 0: all do. */
static struct error *wait_all(struct stop *stop, uint64_t deadline_us, pid_t *ret_late)
{
	uint64_t begin = held_now_us();

	for (unsigned round = 0;; round++) {
		pid_t running = 0, stuck = 0;
		bool closely = held_now_us() > begin + STOP_CLOSELY_US;
		struct error *err = look_at_all(stop, closely, &running, &stuck);
		uint64_t now = held_now_us();

		*ret_late = stuck ? stuck : running;
		if (err || !running || now > deadline_us ||
		    (stuck && now > begin + STOP_PATIENCE_US))
			return err;
		held_block(running, round);
	}
}

static bool has_fit_thread(struct stop *stop)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (!rseq_inside(stop, i, NULL))
			return true;
	}
	return false;
}

static struct error *stuck_error(const struct stop *stop, pid_t tid)
{
	char path[64], where[64] = "";
	struct thread_stat stat = { .comm = "?", .state = '?' };
	_cleanup_error_ struct error *gone = proc_status_read_stat(tid, tid, &stat);
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/wchan", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, where, sizeof(where) - 1);
	where[n > 0 ? n : 0] = '\0';
	return error_new(
		ERROR_FAILED,
		"process %d can't be stopped: its thread %d (%s) is %s (%s); try again later",
		stop->proc->pid, tid, stat.comm,
		stat.state == 'D' ? "in uninterruptible sleep" : "not reacting",
		n > 0 && strcmp(where, "0") ? where : "unknown place");
}

/* One try. *ret_stuck: the thread that prevented it; all that stand still are released then. */
static struct error *hold_all(struct stop *stop, uint64_t deadline_us, pid_t *ret_stuck)
{
	struct error *err;
	bool found;

	*ret_stuck = 0;
	do {
		if ((err = take_threads(stop, &found)) ||
		    (err = wait_all(stop, deadline_us, ret_stuck)))
			return err;
		leave_ended(stop);
		held_compact(stop);
		if (stop->executed || !stop->threads.count)
			return held_gone(stop);
		if (!*ret_stuck && !found && (err = sharers_take(stop, &found)))
			return err;
	} while (!*ret_stuck && found);
	if (!*ret_stuck && !has_fit_thread(stop))
		*ret_stuck = stop->threads.items[0].tid;
	if (*ret_stuck)
		let_all_go(stop, true);
	return NULL;
}

struct error *stop_all(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop)
{
	uint64_t deadline = held_now_us() + (uint64_t)timeout_ms * 1000;
	struct stop *stop = NULL;
	pid_t stuck = 0;
	struct error *err = stop_new(proc, true, &stop);

	if (err)
		return err;
	for (;;) {
		sharers_look(stop);
		stop->since_us = held_now_us();
		err = hold_all(stop, deadline, &stuck);
		if (err || !stuck)
			break;
		if (held_now_us() + STOP_PAUSE_US > deadline) {
			err = stuck_error(stop, stuck);
			break;
		}
		usleep(STOP_PAUSE_US);
	}
	if (err) {
		stop_release(stop, NULL);
		return err;
	}
	mem_set_stopped_thread(proc, stop->threads.items[0].tid);
	*ret_stop = stop;
	return NULL;
}

/* ---- one ------------------------------------------------------------------------------------- */

/* Asleep in a system call is best, then anything that can stop at all. */
static unsigned rank(const struct proc *proc, pid_t tid)
{
	struct thread_stat stat;
	struct error *gone = proc_status_read_stat(proc->pid, tid, &stat);

	error_free(gone);
	if (gone || strchr("ZXxD", stat.state))
		return 0;
	return stat.state == 'S' || stat.state == 'T' ? 2 : 1;
}

/* Takes this one if it is fit: *ret_fit. */
static struct error *try_one(struct stop *stop, pid_t tid, uint64_t deadline_us, bool *ret_fit)
{
	uint64_t limit = held_now_us() + STOP_ONE_US;
	bool ours = false;
	struct error *err;

	*ret_fit = false;
	if (tid == stop->proc->held_tid) {
		if ((err = adopt(stop, tid)))
			return err;
	} else if ((err = held_seize(stop, tid, false, &ours)) || !ours) {
		return err;
	} else if ((err = held_wait(stop, 0, limit < deadline_us ? limit : deadline_us))) {
		return err;
	}
	if (stop->executed)
		return held_gone(stop);
	*ret_fit = stop->threads.items[0].state == HELD_STOPPED && fitness_of(stop, 0);
	if (*ret_fit)
		return NULL;
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
			if (held_now_us() > deadline_us && i)
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
		"no thread of process %d can be borrowed for a moment: all are in uninterruptible "
		"sleep or in the middle of something that can't be interrupted; try again later",
		proc->pid);
}

/* Among these, or (NULL) among all that there are. */
static struct error *hold_one(struct proc *proc, const struct tids *among, unsigned timeout_ms,
			      struct stop **ret_stop)
{
	uint64_t deadline = held_now_us() + (uint64_t)timeout_ms * 1000;
	struct stop *stop = NULL;
	bool fit = false;
	struct error *err = stop_new(proc, false, &stop);

	if (err)
		return err;
	while (!err && !fit) {
		struct tids tids = { 0 };

		stop->since_us = held_now_us();
		if (!among)
			err = threads_list(proc, &tids);
		if (!err)
			err = try_each(stop, among ? among : &tids, deadline, &fit);
		vec_free(&tids);
		if (!err && !fit && held_now_us() > deadline)
			err = none_fit(proc);
		if (!err && !fit)
			usleep(STOP_PAUSE_US);
	}
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
	return hold_one(proc, NULL, timeout_ms, ret_stop);
}

struct error *stop_thread(struct proc *proc, pid_t tid, unsigned timeout_ms, struct stop **ret_stop)
{
	return hold_one(proc, &(struct tids){ .items = &tid, .count = 1 }, timeout_ms, ret_stop);
}

/* ---- adopt ----------------------------------------------------------------------------------- */

/* From whatever ptrace stop it is in to an event stop (S1), without executing an instruction. */
static struct error *to_event_stop(struct stop *stop, pid_t tid)
{
	siginfo_t info;
	int signal = 0;

	if (ptrace(PTRACE_GETSIGINFO, tid, 0, &info))
		/* EINVAL: a group-stop, which is one */
		return errno == ESRCH ? held_gone(stop) : NULL;
	if (info.si_code >> 8 == PTRACE_EVENT_STOP)
		return NULL;
	bool report =
		info.si_signo == SIGTRAP && (info.si_code >> 8 > 0 || info.si_code == SIGTRAP ||
					     info.si_code == (SIGTRAP | 0x80));
	if (!report)
		signal = info.si_signo; /* a signal on its way */
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
	err = adopt(stop, tid);
	if (!err)
		err = to_event_stop(stop, tid);
	if (err) {
		stop_disown(stop);
		return err;
	}
	stop->threads.items[0].adopted = false;
	mem_set_stopped_thread(proc, tid);
	*ret_stop = stop;
	return NULL;
}

void stop_disown(struct stop *stop)
{
	if (!stop)
		return;
	for (size_t i = 0; i < stop->threads.count; i++)
		stop->threads.items[i].adopted = true;
	stop_release(stop, NULL);
}

/* ---- what is held ---------------------------------------------------------------------------- */

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

bool stop_thread_restarts(const struct stop *stop, size_t index)
{
	return restart_by_kernel(&thread_at(stop, index)->regs);
}

struct error *stop_thread_mask(const struct stop *stop, size_t index, uint64_t *ret_mask)
{
	pid_t tid = thread_at(stop, index)->tid;
	struct thread_status status;
	uint64_t later = 0;
	struct error *error = proc_status_read(stop->proc->pid, tid, &status);

	if (!error && ptrace(PTRACE_GETSIGMASK, tid, sizeof(later), &later))
		error = error_errno(errno, "cannot read the signal mask of thread %d", tid);
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
