/*
 * stop.h - hold the threads of a process still, and let them go as if nothing had happened.
 *
 * ptrace is tied to the calling thread: one thread of the controller does all of this.
 * Between stop_* and stop_release the caller does as little as it can. While anything is held the
 * caller runs at SCHED_FIFO priority where it may, and goes back to what it had on release,
 * whatever happens in between. Release is invisible: interrupted system calls go on (those that
 * signal(7) says return EINTR after a stop are rewound by hand unless a signal is pending), a
 * process that was stopped by SIGSTOP stays stopped, signals that came meanwhile are delivered.
 *
 * If the controller is killed at any moment, every thread goes on where it was (H14): remote calls
 * run on a frame that ends in rt_sigreturn to the saved context.
 */
#ifndef DYNTRACE_STOP_H
#define DYNTRACE_STOP_H

#include <sys/user.h>

#include "control/proc/proc.h"

/* Longest wait for a thread in uninterruptible sleep. Every stop takes it, except where a caller can
 * try again at little cost (SAFEPOINT_STOP_MS). */
#define STOP_TIMEOUT_MS 2000

struct stop;

/*
 * Holds every thread, including those that appear while it works and processes that share the
 * memory without being threads (H13). A thread in uninterruptible sleep is waited for at most
 * timeout_ms; then everything is let go again, and the error names the thread and what it waits in
 * (wchan).
 */
struct error *stop_all(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop);

/* Holds one thread only, one that is fit for remote calls: not in a restartable sequence (H11),
 * preferably asleep in a system call. */
struct error *stop_one(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop);

/* The same for that thread: an error if it isn't fit. */
struct error *stop_thread(struct proc *proc, pid_t tid, unsigned timeout_ms,
			  struct stop **ret_stop);

/* Takes over a thread that the caller already holds in a ptrace stop (a command just started),
 * seized with PTRACE_O_TRACESYSGOOD. */
struct error *stop_adopt(struct proc *proc, pid_t tid, struct stop **ret_stop);

/* Lets all go and frees. Safe on NULL. Microseconds held are in *ret_us if not NULL. */
void stop_release(struct stop *stop, uint64_t *ret_us);
static inline void cleanup_stop(struct stop **stop)
{
	stop_release(*stop, NULL);
}
/* The same for an adopted thread that is to remain in its ptrace stop. */
void stop_disown(struct stop *stop);

size_t stop_thread_count(const struct stop *stop);
pid_t stop_thread_tid(const struct stop *stop, size_t index);
taddr stop_thread_rip(const struct stop *stop, size_t index);
taddr stop_thread_rsp(const struct stop *stop, size_t index);
/* True: it was interrupted in a system call that the kernel will execute again: what runs next is
 * the `syscall` instruction that stands directly before rip (so an rip at the end of a site is
 * inside it, and moves to the end of the copy, where the same instruction stands before it). Calls
 * that are rewound by hand have an rip at their `syscall` instruction already. */
bool stop_thread_restarts(const struct stop *stop, size_t index);
/* Signals that are blocked in it, now or when the system call that it is in comes back
 * (sigsuspend): bit n - 1 is signal n. */
struct error *stop_thread_mask(const struct stop *stop, size_t index, uint64_t *ret_mask);
/* It has run into a trap, and the signal for that is still to come: that goes by where it stands,
 * so it mustn't be moved. */
bool stop_thread_trapped(const struct stop *stop, size_t index);
/* Is a process held that shares the memory without being a thread (H13)? */
bool stop_has_sharers(const struct stop *stop);
/* Where the thread continues. Written to the thread at once; a thread inside a restartable
 * sequence goes to its abort address instead. */
struct error *stop_thread_set_rip(struct stop *stop, size_t index, taddr rip);

#endif
