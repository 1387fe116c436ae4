/*
 * stop_all.c - hold all threads of a process.
 *
 * Passes over /proc/PID/task seize threads, which run on, and only then ask them to stop: with many
 * threads the first would wait for all others to be seized. A pass is the last one if, while all
 * threads known so far stand still, they are as many as the kernel counts, or if it finds no new
 * thread: every thread that could make another is known. Clones of seized threads are ours from
 * birth (PTRACE_O_TRACECLONE). The first pass leaves out threads that compute (S16, computing.h):
 * they run on until the others stand still.
 *
 * The directory alone can't be trusted: the kernel ends its list at a thread that ends just then,
 * and the threads behind that one are missing. So the kernel's count of threads decides (S4): while
 * it is larger than the number of threads that are held, another pass follows.
 *
 * A thread in uninterruptible sleep delays a pass, and all other threads stand still meanwhile. So
 * such a pass is given up quickly, all threads run on, and the next pass follows until the caller's
 * time is over.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "control/fence/filters.h"
#include "control/proc/proc_status.h"
#include "control/proc/unreleased.h"
#include "computing.h"
#include "fitness.h"
#include "rseq.h"
#include "sharers.h"
#include "starved.h"
#include "stop_parts.h"

/* wait for a thread in uninterruptible sleep, while all others are held */
#define STOP_PATIENCE_US 20000
#define STOP_CLOSELY_US 5000 /* wait before looking for the reason */

struct dirent_raw {
	uint64_t inode;
	int64_t next;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* `hint` makes this cheap: stop->threads is mostly in the directory's order. */
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

/* Where in the lists of threads the next one is expected. */
struct hints {
	size_t known, computing;
};

static struct error *take_new(struct stop *stop, pid_t tid, struct hints *hints, bool *found)
{
	bool ours = false;
	struct error *err = NULL;

	if (tid <= 0 || is_known(stop, tid, &hints->known))
		return NULL;
	bool computes = computing_has(stop, tid, &hints->computing);
	if (computes && stop->spares)
		return NULL;
	if (tid == stop->proc->held_tid) {
		ours = true;
		err = stop_take_held(stop, tid);
	} else {
		err = held_seize(stop, tid, false, &ours);
	}
	if (computes && ours && !err)
		stop->threads.items[stop->threads.count - 1].computes = true;
	*found |= ours;
	return err;
}

/* One pass over the directory. *ret_found: it seized a new thread. */
static struct error *take_threads(struct stop *stop, bool *ret_found)
{
	char buffer[32768] __attribute__((aligned(8)));
	struct error *err = NULL;
	struct hints hints = { 0 };
	ssize_t n = 0;

	*ret_found = false;
	lseek(stop->task_fd, 0, SEEK_SET);
	while (!err && (n = syscall(SYS_getdents64, stop->task_fd, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; !err && at < n;) {
			const struct dirent_raw *entry = (const void *)(buffer + at);

			err = take_new(stop, atoi(entry->name), &hints, ret_found);
			at += entry->length;
		}
	}
	if (!err && n < 0 && errno != ENOENT && errno != ESRCH)
		err = error_errno(errno, "cannot list the threads of process %d", stop->proc->pid);
	return err;
}

/* Ended threads that aren't ours, and whose end nobody has seen yet. */
static size_t count_ended(const struct stop *stop)
{
	struct tids tids = { 0 };
	_cleanup_error_ struct error *gone = threads_list(stop->proc, &tids);
	size_t hint = 0, ended = 0;

	for (size_t i = 0; !gone && i < tids.count; i++) {
		struct thread_stat stat;

		if (is_known(stop, tids.items[i], &hint))
			continue;
		_cleanup_error_ struct error *vanished =
			proc_status_read_stat(tids.items[i], tids.items[i], &stat);
		ended += !vanished && (stat.state == 'Z' || stat.state == 'X');
	}
	vec_free(&tids);
	return ended;
}

/* How many threads the kernel counts, which gives the directory a link for each, besides those that
 * are held; -1: unknown. */
static long count_others(const struct stop *stop)
{
	struct stat directory;
	long known = 0;

	for (size_t i = 0; i < stop->threads.count; i++)
		known += !stop->threads.items[i].sharer;
	if (fstat(stop->task_fd, &directory) || (long)directory.st_nlink < known + 2)
		return -1;
	return (long)directory.st_nlink - 2 - known;
}

/* Has the process a thread that no pass has found? All known threads stand still. */
static bool has_unlisted(const struct stop *stop)
{
	long others = count_others(stop);

	return others > 0 && others > (long)count_ended(stop);
}

/* Finds out why a thread doesn't stop: an ended leader never does while others live. True: it is in
 * uninterruptible sleep. */
static bool is_stuck(struct stop *stop, struct held *held)
{
	struct thread_stat stat;
	_cleanup_error_ struct error *gone = proc_status_read_stat(held->tid, held->tid, &stat);

	if (gone)
		return false;
	held->ended = stat.state == 'Z' && (held->sharer || held->tid == stop->proc->pid);
	starved_note(held);
	held_check_replaced(stop, held);
	return stat.state == 'D';
}

/* Looks at each running thread. `closely`: also at threads that stand still (they may have been
 * killed, and the killer may wait until we have seen it), and at the reason why others still
 * run. */
static struct error *look_at_all(struct stop *stop, bool closely, pid_t *ret_running,
				 pid_t *ret_stuck)
{
	pid_t ended = 0;
	bool others = stop->spares;

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
	/* all have ended, or one is in exec: both get reported; or an unknown thread lives on */
	if (!*ret_running && !others)
		*ret_running = *ret_stuck = ended;
	return NULL;
}

/* Doesn't wait for an ended leader of living threads: its end shows when they are gone. */
static void leave_ended(struct stop *stop)
{
	bool others = stop->spares;

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

/* The one in the middle of those that still run, in the order in which they were asked: when it
 * stands still, about half of them do, and their reports are taken while the others come to their
 * stops. */
static pid_t find_middle(const struct stop *stop, pid_t otherwise)
{
	size_t count = 0, seen = 0;

	for (size_t i = 0; i < stop->threads.count; i++)
		count += stop->threads.items[i].state == HELD_SEIZED;
	for (size_t i = 0; i < stop->threads.count; i++) {
		const struct held *held = &stop->threads.items[i];

		if (held->state == HELD_SEIZED && seen++ >= count / 2 && !held->ended)
			return held->tid;
	}
	return otherwise;
}

/* Waits until all threads stand still. *ret_late: tid of a thread that doesn't; 0: all do. */
static struct error *wait_all(struct stop *stop, uint64_t deadline_us, pid_t *ret_late)
{
	uint64_t begin = held_now_us();

	for (unsigned round = 0;; round++) {
		pid_t running = 0, stuck = 0;
		bool closely = held_now_us() > begin + STOP_CLOSELY_US;
		struct error *err = look_at_all(stop, closely, &running, &stuck);
		uint64_t now = held_now_us();

		*ret_late = stuck ? stuck : running;
		if (err || !running || now > deadline_us || stop_is_quit(stop) ||
		    (stuck && now > begin + STOP_PATIENCE_US))
			return err;
		held_block(find_middle(stop, running), round);
	}
}

static bool has_fit_thread(struct stop *stop)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (!rseq_inside(stop, i, NULL) && !fitness_is_trapped(stop->threads.items[i].tid))
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

static struct error *starved_error(const struct stop *stop, pid_t tid)
{
	return error_new(
		ERROR_FAILED,
		"process %d can't be stopped: its thread %d gets no processor (the machine "
		"is busy, or the process has a quota); try again later",
		stop->proc->pid, tid);
}

static bool is_starved(const struct stop *stop, pid_t tid, uint64_t us)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		if (stop->threads.items[i].tid == tid)
			return starved_is(&stop->threads.items[i], us);
	}
	return false;
}

/* As in the kernel's list: whoever takes the first of the threads that will do takes the leader. */
static void put_leader_first(struct stop *stop)
{
	struct held *items = stop->threads.items;
	size_t leader = 0;

	while (leader < stop->threads.count && items[leader].tid != stop->proc->pid)
		leader++;
	if (!leader || leader == stop->threads.count)
		return;
	struct held first = items[leader];
	memmove(items + 1, items, leader * sizeof(*items));
	items[0] = first;
}

/* Tries once. *ret_stuck: the thread that prevented it; all stopped threads are released then. */
static struct error *hold_all(struct stop *stop, uint64_t deadline_us, pid_t *ret_stuck)
{
	uint64_t begin = held_now_us();
	struct error *err;
	bool found;

	*ret_stuck = 0;
	do {
		if ((err = take_threads(stop, &found)))
			return err;
		held_ask(stop);
		if ((err = wait_all(stop, deadline_us, ret_stuck)))
			return err;
		leave_ended(stop);
		held_compact(stop);
		if (stop->executed || (!stop->threads.count && !stop->spares))
			return held_gone(stop);
		found |= stop->spares;
		stop->spares = false;
		found &= count_others(stop) != 0;
		if (!*ret_stuck && !found && (err = sharers_take(stop, &found)))
			return err;
		if (!*ret_stuck && !found && has_unlisted(stop)) { /* S4 */
			found = held_now_us() < begin + STOP_PATIENCE_US;
			*ret_stuck = found ? 0 : stop->proc->pid;
		}
	} while (!*ret_stuck && found);
	put_leader_first(stop);
	if (!*ret_stuck && !has_fit_thread(stop))
		*ret_stuck = stop->threads.items[0].tid;
	if (*ret_stuck)
		stop_let_go(stop, true);
	return NULL;
}

/* (S19) */
static void check_plain(struct stop *stop)
{
	size_t one = 0;

	while (one < stop->threads.count && stop->threads.items[one].sharer)
		one++;
	bool vouches = stop->asks && one < stop->threads.count &&
		       filters_has_none(stop->threads.items[one].tid);
	for (size_t i = 0; i < stop->threads.count; i++)
		stop->threads.items[i].plain &= vouches;
}

static struct error *hold_process(struct proc *proc, unsigned timeout_ms, bool quits, bool asks,
				  struct stop **ret_stop)
{
	uint64_t time_us = (uint64_t)timeout_ms * 1000, deadline = held_now_us() + time_us;
	uint64_t last = deadline + (STARVED_TIMES - 1) * time_us;
	struct stop *stop = NULL;
	pid_t stuck = 0;
	struct error *err = stop_new(proc, true, &stop);

	if (err)
		return err;
	stop->quits = quits;
	stop->asks = asks && !proc->filtered;
	for (;;) {
		computing_look(stop);
		stop_raise(stop);
		sharers_look(stop);
		err = hold_all(stop, deadline, &stuck);
		if (err || !stuck)
			break;
		if (stop_is_quit(stop)) {
			err = interrupt_check();
			break;
		}
		bool is_late = held_now_us() + STOP_PAUSE_US > deadline;
		bool starved = is_late && is_starved(stop, stuck, time_us); /* S13 */

		if (is_late && (!starved || held_now_us() > last)) {
			err = (starved ? starved_error : stuck_error)(stop, stuck);
			break;
		}
		usleep(STOP_PAUSE_US);
		if (starved && (err = starved_wait(stop, stuck, last)))
			break;
		if (starved)
			deadline = held_now_us() + time_us;
	}
	if (!err)
		err = stop_check_program(stop);
	if (err) {
		stop_release(stop, NULL);
		return err;
	}
	check_plain(stop);
	assert(stop->threads.count);
	mem_set_stopped_thread(proc, stop->threads.items[0].tid);
	*ret_stop = stop;
	return NULL;
}

struct error *stop_all(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop)
{
	return hold_process(proc, timeout_ms, false, false, ret_stop);
}

struct error *stop_all_or_quit(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop)
{
	return hold_process(proc, timeout_ms, true, false, ret_stop);
}

struct error *stop_all_and_ask(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop)
{
	return hold_process(proc, timeout_ms, true, true, ret_stop);
}
