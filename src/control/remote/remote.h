/*
 * remote.h - run system calls in a held thread of the target.
 *
 *	remote_begin	borrows a fit thread of `stop`
 *	remote_call	any number of times
 *	remote_end	gives it back: registers, signal mask and stack are as they were (S2)
 *
 * Pairs nest: the outermost one borrows and gives back, the inner ones cost nothing.
 *
 * (H26) Where the borrowed thread has seccomp filters, each call is made only if they allow it,
 * with these very arguments. Otherwise it fails with ERROR_REFUSED, and the error says what the
 * filter does ("its filter kills for munmap"). Filters that can't be read allow nothing, unless
 * they are our own.
 *
 * (S6) If proc.may_suspend is set, a forbidden call is made all the same, with the filters of this
 * one thread suspended (PTRACE_O_SUSPEND_SECCOMP) while it is in our hands: from the stop before
 * the call to the stop after it. None of its own code runs unfiltered, and no child inherits that.
 *
 * (S7) A thread whose system calls are dispatched to itself (fence/user_dispatch.h) would get ours
 * as signals, and die. So a thread is preferred that isn't, or whose byte allows calls now; else
 * one whose range has the code that we use. For another one the dispatch is off while it is
 * borrowed. If the controller is killed just then, the thread goes home, and a process of ours
 * switches its dispatch on again.
 *
 * The thread runs on a frame that ends in rt_sigreturn (sigframe.h), so that the controller's death
 * at any moment does it no harm. Only a target without `syscall; ret` and restorer (a tiny static
 * program) runs without that frame.
 */
#ifndef DYNTRACE_REMOTE_H
#define DYNTRACE_REMOTE_H

#include "control/stop/held.h"

struct remote;

struct error *remote_begin(struct stop *stop, struct remote **ret_remote);
/* *ret_result: the kernel's result; -errno is no error here. */
struct error *remote_call(struct remote *remote, long number, const uint64_t args[6],
			  int64_t *ret_result);
/* The borrowed thread. */
pid_t remote_thread(const struct remote *remote);
/* Does the process lock its memory (mlock, mlockall)? Reads /proc once, after a first mapping. */
bool remote_locks_memory(struct remote *remote);
/* Tells of a mapping that was made since remote_begin. */
void remote_note_mapped(struct remote *remote);
/* Calls a function of the target, with up to three arguments, on the thread's own stack, and
 * ignores its result. Only at a safe point (safepoint.h). If it doesn't return in time, or the
 * controller is killed, the thread finishes the call and goes on by itself: the frame is that of a
 * signal handler. */
struct error *remote_function(struct remote *remote, taddr function, const uint64_t args[3]);
/* Copies up to FRAME_SCRATCH - 8 bytes into the target, for a call's arguments to point to. Valid
 * until the next remote_put. */
struct error *remote_put(struct remote *remote, const void *data, size_t n, taddr *ret_at);
/* Eight bytes for a call to write to. */
taddr remote_room(const struct remote *remote);
/* Safe on NULL. Fails only if the thread has ended. */
struct error *remote_end(struct remote *remote);

/* Borrows one thread for many remote_syscalls, until remote_give_back. Registers can't be set
 * meanwhile. */
struct error *remote_borrow(struct stop *stop);
/* Fails only if the thread has ended. */
struct error *remote_give_back(struct stop *stop);
/* Borrows a thread for one system call. *ret_result: the kernel's result; -errno is no error
 * here. */
struct error *remote_syscall(struct stop *stop, long number, const uint64_t args[6],
			     int64_t *ret_result);

/* remote_call with the arguments as a list. */
#define remote_do(remote, ret_result, number, ...) \
	remote_call((remote), (number), (const uint64_t[6]){ __VA_ARGS__ }, (ret_result))

#endif
