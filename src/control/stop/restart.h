/*
 * restart.h - what becomes of a system call that a stop interrupted.
 *
 * Pure: only registers. The kernel restarts most calls by itself when the thread's registers are
 * left alone. A few come back with EINTR after any stop, although no signal handler ran
 * (signal(7)): those are rewound by hand to their `syscall` instruction. Rewinding starts a
 * relative timeout (epoll_wait, semtimedop, SO_RCVTIMEO) afresh: later than asked, but never an
 * error that the program didn't earn.
 */
#ifndef DYNTRACE_RESTART_H
#define DYNTRACE_RESTART_H

#include <stdbool.h>
#include <sys/user.h>

/* The kernel will go back two bytes and execute the call again, unless a signal handler says
 * otherwise. */
bool restart_by_kernel(const struct user_regs_struct *regs);

/* It came back with EINTR and can be executed again. Whether a signal earned it is the caller's
 * question, and whether `syscall` is what stands before rip. */
bool restart_by_hand(const struct user_regs_struct *regs);

/* Back to the `syscall` instruction. */
void restart_rewind(struct user_regs_struct *regs);

/*
 * The registers with which the thread can go on by itself, with no help by the kernel: for a frame
 * that ends in rt_sigreturn. handler: a signal with a handler is pending, which ends the call with
 * EINTR where it does so. rt_sigreturn makes the kernel forget how far a sleep got, so calls with a
 * timeout begin afresh.
 */
struct user_regs_struct restart_context(const struct user_regs_struct *regs, bool handler);

/* A call that was restarted before is in restart_syscall, which would be of no use to such a frame:
 * the number of the call it stands for, from the instruction before `syscall`, mov $number, %eax.
 * -1: it isn't that. */
#define RESTART_MOVE_LENGTH 5
long restart_number(const unsigned char before[RESTART_MOVE_LENGTH]);

#endif
