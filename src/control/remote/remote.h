/*
 * remote.h - system calls run by a held thread of the target. Private to inject/.
 *
 *	remote_begin	borrows a fit thread of `stop`
 *	remote_call	any number of times
 *	remote_end	gives it back: registers, signal mask and stack are as they were (S2)
 *
 * May be nested: then the outermost pair borrows and gives back, and what lies between them costs
 * only its calls.
 *
 * The thread runs on a frame that ends in rt_sigreturn (sigframe.h), so that our death at any moment
 * costs it nothing; only where the target has no `syscall; ret` and restorer (a tiny static
 * program) it runs without.
 */
#ifndef DYNTRACE_REMOTE_H
#define DYNTRACE_REMOTE_H

#include "control/stop/held.h"

struct remote;

struct error *remote_begin(struct stop *stop, struct remote **ret_remote);
/* *ret_result as the kernel returned it: -errno is no error here. */
struct error *remote_call(struct remote *remote, long number, const uint64_t args[6],
			  int64_t *ret_result);
/* The borrowed thread. */
pid_t remote_thread(const struct remote *remote);
/* Calls a function of the target's, with up to three arguments, on the thread's own stack; what it
 * returns isn't told. Only at a safe point (safepoint.h). Should it not come back in time, or
 * should we be killed, the thread finishes the call and goes on by itself: the frame is that of a
 * signal handler. */
struct error *remote_function(struct remote *remote, taddr function, const uint64_t args[3]);
/* Puts up to FRAME_SCRATCH bytes where a call's arguments can point to, until the next time. */
struct error *remote_put(struct remote *remote, const void *data, size_t n, taddr *ret_at);
/* Safe on NULL. An error means that the thread has ended. */
struct error *remote_end(struct remote *remote);

/* From here to remote_give_back the thread that runs system calls in the target is the same, and
 * isn't given back after each: for whoever makes many. Registers can't be set meanwhile. */
struct error *remote_borrow(struct stop *stop);
/* An error means that the thread has ended. */
struct error *remote_give_back(struct stop *stop);
/* Borrows a thread for one system call. *ret_result is what the kernel returned (-errno on failure:
 * that is no error here). */
struct error *remote_syscall(struct stop *stop, long number, const uint64_t args[6],
			     int64_t *ret_result);

/* remote_call with the arguments in a row. */
#define remote_do(remote, ret_result, number, ...) \
	remote_call((remote), (number), (const uint64_t[6]){ __VA_ARGS__ }, (ret_result))

#endif
