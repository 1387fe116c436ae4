/*
 * user_dispatch.h - Syscall User Dispatch of a thread that is in a ptrace stop of ours (Linux 6.4).
 *
 * prctl(PR_SET_SYSCALL_USER_DISPATCH), as Wine uses it: each system call from outside of a range of
 * code becomes a SIGSYS for the thread's handler, while a byte of the thread's says so.
 */
#ifndef DYNTRACE_USER_DISPATCH_H
#define DYNTRACE_USER_DISPATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The kernel's struct ptrace_sud_config. */
struct user_dispatch {
	uint64_t on; /* 0: off */
	uint64_t selector; /* address of the byte; 0: none, every call is dispatched */
	uint64_t offset, length; /* code whose calls are never dispatched */
};

/* [start, end) of the thread's stack and code while it makes calls of ours, until it is back in its
 * own code. These calls must not be dispatched. */
struct user_dispatch_away {
	uint64_t stack[2], call[2], back[2];
};

struct user_dispatch_guard {
	pid_t pid; /* 0: none */
	int fd; /* closed by the kernel when this process ends */
};

#define DISPATCH_ALLOW 0u /* value of the byte: no call is dispatched */

/* False: off, or the kernel can't tell. */
bool user_dispatch_read(pid_t tid, struct user_dispatch *ret_dispatch);
/* False: failed, with errno. */
bool user_dispatch_write(pid_t tid, const struct user_dispatch *dispatch);
/*
 * Starts a process of ours that restores the dispatch of the thread if this process is killed
 * before user_dispatch_unguard, when the thread has made the calls of ours that it is at. It may
 * run without dispatch before the guard has it. If no process can be made, nothing happens.
 */
void user_dispatch_guard(pid_t tid, const struct user_dispatch *dispatch,
			 const struct user_dispatch_away *away,
			 struct user_dispatch_guard *ret_guard);
/* Ends the guard, if there is one. */
void user_dispatch_unguard(struct user_dispatch_guard *guard);
/* Is a call by the `syscall` instruction at that address made, whatever the byte says? */
bool user_dispatch_spares(const struct user_dispatch *dispatch, uint64_t at);

#endif
