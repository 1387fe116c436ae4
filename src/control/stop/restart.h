/*
 * restart.h - the fate of a system call that a stop interrupted.
 *
 * Pure: only registers. The kernel restarts most calls by itself if the thread's registers are left
 * alone. A few return EINTR after any stop, although no signal handler ran (signal(7)): the
 * controller rewinds them to their `syscall` instruction. Rewinding starts a relative timeout
 * (epoll_wait, semtimedop, SO_RCVTIMEO) afresh: the call ends later than asked, but never with an
 * error that the program wouldn't get without us.
 */
#ifndef DYNTRACE_RESTART_H
#define DYNTRACE_RESTART_H

#include <stdbool.h>
#include <sys/user.h>

/* The kernel will go back two bytes and execute the call again, unless a signal handler says
 * otherwise. */
bool restart_by_kernel(const struct user_regs_struct *regs);

/* The kernel will do so by another system call, restart_syscall, for the rest of a timeout. */
bool restart_with_rest(const struct user_regs_struct *regs);

/* True: the call returned EINTR and can be executed again. The caller checks whether a signal
 * caused it, and whether a `syscall` instruction stands before rip. */
bool restart_by_hand(const struct user_regs_struct *regs);

/* Sets rip back to the `syscall` instruction. */
void restart_rewind(struct user_regs_struct *regs);

/*
 * The registers with which the thread goes on by itself, without the kernel's restart: for a frame
 * that ends in rt_sigreturn. handler: a signal with a handler is pending, so calls that such a
 * signal ends return EINTR. rt_sigreturn makes the kernel forget how far a sleep got, so calls with
 * a timeout begin afresh.
 */
struct user_regs_struct restart_context(const struct user_regs_struct *regs, bool handler);

/* A call that was restarted before is in restart_syscall, which doesn't work after rt_sigreturn.
 * Finds the number of the original call in the instruction before `syscall`, mov $number, %eax. -1:
 * another instruction stands there. */
#define RESTART_MOVE_LENGTH 5
long restart_number(const unsigned char before[RESTART_MOVE_LENGTH]);

#endif
