/*
 * stop.h - hold the threads of a process still, and let them go as if nothing had happened.
 *
 * ptrace is tied to the calling thread: one thread of the controller makes all of these calls.
 * Between stop_* and stop_release the caller does as little as it can. While threads are held the
 * caller runs at SCHED_FIFO priority where it may, and returns to its own on release, whatever
 * happens in between. Release is invisible: interrupted system calls go on (the calls that return
 * EINTR after a stop, see signal(7), are rewound by hand unless a signal is pending), a process
 * stopped by SIGSTOP stays stopped, signals that came meanwhile are delivered.
 *
 * If the controller is killed at any moment, every thread goes on where it was (H14): remote calls
 * run on a frame that ends in rt_sigreturn to the saved context.
 */
#ifndef DYNTRACE_STOP_H
#define DYNTRACE_STOP_H

#include <sys/user.h>

#include "control/proc/proc.h"

/* Longest wait for a thread in uninterruptible sleep. Every caller uses it, except where another
 * try costs little (SAFEPOINT_STOP_MS). A thread that gets no processor is waited for longer, while
 * the others run (S13). */
#define STOP_TIMEOUT_MS 2000

struct stop;

/*
 * Holds every thread, including threads that appear meanwhile and processes that share the memory
 * without being threads (H13). Waits at most timeout_ms for a thread in uninterruptible sleep; then
 * lets all threads go again, and the error names that thread and where it sleeps (wchan).
 */
struct error *stop_all(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop);
/* The same for a change that can be left undone: stops waiting when the user wants to end
 * (ERROR_INTERRUPTED, interrupt.h). What removes our own traces isn't left undone. */
struct error *stop_all_or_quit(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop);

/* As stop_all_or_quit. Asks each thread, while others still come to their stops, for what
 * stop_thread_is_plain tells. */
struct error *stop_all_and_ask(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop);

/* Holds a single thread that is fit for remote calls: not in a restartable sequence (H11),
 * preferably asleep in a system call. */
struct error *stop_one(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop);
/* As stop_all_or_quit. */
struct error *stop_one_or_quit(struct proc *proc, unsigned timeout_ms, struct stop **ret_stop);

/* Holds the thread `tid` only. Fails if it isn't fit for remote calls. */
struct error *stop_thread(struct proc *proc, pid_t tid, unsigned timeout_ms,
			  struct stop **ret_stop);

/* Takes over a thread that the caller already holds in a ptrace stop (a command just started),
 * seized with PTRACE_O_TRACESYSGOOD. */
struct error *stop_adopt(struct proc *proc, pid_t tid, struct stop **ret_stop);

/* Lets all threads go and frees `stop`. Safe on NULL. *ret_us, if not NULL: the longest time
 * for which a thread was held, in microseconds. */
void stop_release(struct stop *stop, uint64_t *ret_us);
static inline void cleanup_stop(struct stop **stop)
{
	stop_release(*stop, NULL);
}
/* Frees `stop`, and leaves an adopted thread in its ptrace stop. */
void stop_disown(struct stop *stop);

size_t stop_thread_count(const struct stop *stop);
pid_t stop_thread_tid(const struct stop *stop, size_t index);
taddr stop_thread_rip(const struct stop *stop, size_t index);
taddr stop_thread_rsp(const struct stop *stop, size_t index);
/* Its FS base: the address of its thread block; 0: none. */
uint64_t stop_thread_block(const struct stop *stop, size_t index);
/* True: the stop interrupted a system call that the kernel will execute again. The thread then runs
 * the `syscall` instruction directly before rip next (so an rip at the end of a site is inside it,
 * and moves to the end of the copy, where the same instruction stands before it). Calls that are
 * rewound by hand have their rip at the `syscall` instruction already. */
bool stop_thread_restarts(const struct stop *stop, size_t index);
/* True: the stop interrupted a system call that was rewound by hand. */
bool stop_thread_rewound(const struct stop *stop, size_t index);
/* Signals that the thread blocks now, or will block when its system call returns (sigsuspend): bit
 * n - 1 is signal n. */
struct error *stop_thread_mask(const struct stop *stop, size_t index, uint64_t *ret_mask);
/* True: the thread has run into a trap whose SIGTRAP is still pending. The handler judges by rip,
 * so the thread mustn't be moved. */
bool stop_thread_trapped(const struct stop *stop, size_t index);
/* True: no filter sees the thread's system calls, and they aren't dispatched to it (S19). False:
 * not known. */
bool stop_thread_is_plain(const struct stop *stop, size_t index);
/* Does `stop` hold a process that shares the memory without being a thread (H13)? */
bool stop_has_sharers(const struct stop *stop);
/* Sets where the thread continues, at once. A thread inside a restartable sequence goes to the
 * sequence's abort address instead. */
struct error *stop_thread_set_rip(struct stop *stop, size_t index, taddr rip);

#endif
