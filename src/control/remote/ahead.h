/*
 * ahead.h - system calls that the borrowed thread makes in one go, before they are asked for.
 *
 * Each call of remote.h resumes the thread twice, and each time both wait for a processor: with all
 * threads held, 17 of them are most of a stop. So a caller that knows what it is going to ask for
 * has the calls made ahead. It then asks for them as ever, in the same order: remote_call has the
 * results already. What can't be made ahead is made when it is asked for, so that this changes no
 * more than the time.
 *
 * The thread runs a loop (x86_64/call_list.c) in a page of ours, the desk, over a list in that page
 * which it can't write. The first call that fails is the last one.
 *
 * How the loop ends: a signal that the process ignores is sent to the thread beforehand, while all
 * signals are blocked. The loop unblocks it, and the thread stops before it takes it, for us. If
 * the controller is killed at any moment, the thread makes the calls of the list, the kernel drops
 * the signal as nobody catches it, and the thread goes home as from any other call (H14). There is
 * no step at which it waits for us. Until it is home it needs the desk: the next controller waits
 * (sweep_await_home). An rt_sigreturn that unblocks would need no other call, but a sleep that was
 * interrupted can't go on behind one.
 *
 * (S10) Calls are made ahead only while all threads are held, of a thread whose calls weren't
 *      dispatched, with a signal that is ignored and that the thread neither blocks nor has
 *      pending, and that it may unblock; each only if the thread's filters allow it (H26), none
 *      with filters suspended.
 * (S11) Calls that were made ahead and aren't asked for next are undone: a caller that takes
 *      another way, because a call failed, finds what it would have found.
 * (S12) Nothing of a dead controller's is unmapped while a thread is on its desk, or about to make
 *      a single call of its (remote.h).
 * (S14) The desk is for one process: forked children map the same page, and a killed controller's
 *      thread in one of them might read the next one's list.
 */
#ifndef DYNTRACE_AHEAD_H
#define DYNTRACE_AHEAD_H

#include "remote.h"

#define AHEAD_MAX 32

struct ahead_call {
	long number;
	uint64_t args[6];
	int fd_of; /* args[4] is the result of that call of the list; -1: as it says */
};

struct ahead {
	struct ahead_call calls[AHEAD_MAX];
	size_t count;
};

/* Adds a call, if there is room; its index, or -1. */
int ahead_add(struct ahead *list, long number, int fd_of, const uint64_t args[6]);
#define ahead_do(list, fd_of, number, ...) \
	ahead_add((list), (number), (fd_of), (const uint64_t[6]){ __VA_ARGS__ })

/* The page that the loop runs in: `here` in our mapping, executable in the target at `there`. Its
 * contents are ours from now on, for this and later borrowed threads of the process. */
void ahead_set_desk(struct remote *remote, void *here, taddr there);
/* The page is about to go, or its mapping here. */
void ahead_forget_desk(struct proc *proc);

/* Makes the calls of the list, as far as they can be made ahead. Only mmap, madvise, memfd_create,
 * close and prctl's questions (S11); and munmap of memory that the caller is going to unmap
 * whatever happens. Fails only if the thread is gone. */
struct error *ahead_make(struct remote *remote, const struct ahead *list);

/* For remote.c. The signal for a thread with this status and mask; 0: none. */
struct thread_status;
int ahead_find_signal(const struct thread_status *status, uint64_t mask);
/* True: the call was made ahead, and *ret_result is its result. False: nothing is left of calls
 * made ahead. */
struct error *ahead_take(struct remote *remote, long number, const uint64_t args[6],
			 int64_t *ret_result, bool *ret_taken);
/* (S11) */
struct error *ahead_undo(struct remote *remote);

#endif
