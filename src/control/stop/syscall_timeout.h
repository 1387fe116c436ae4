/*
 * syscall_timeout.h - no blocking call of the calling thread lasts long.
 *
 * Between syscall_timeout_begin and syscall_timeout_end a timer signal comes to the thread every few ms: waitpid returns
 * with EINTR, and the caller looks at the clock. Pairs nest. Uses one real-time signal (SIGRTMAX -
 * 1), with a handler that stays.
 */
#ifndef DYNTRACE_SYSCALL_TIMEOUT_H
#define DYNTRACE_SYSCALL_TIMEOUT_H

#include <stdbool.h>

void syscall_timeout_begin(void);
void syscall_timeout_end(void);
/* False: there is no timer, don't block. */
bool syscall_timeout_is_running(void);

/* What to do at each tick while a call is made that can't be interrupted. Only what is safe in a
 * signal handler. NULL: nothing. */
void syscall_timeout_do(void (*function)(void *data), void *data);

#endif
