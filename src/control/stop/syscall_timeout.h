/*
 * syscall_timeout.h - no blocking call of the calling thread lasts long.
 *
 * Between tick_begin and tick_end a timer signal comes to the thread every few ms: waitpid returns
 * with EINTR, and the caller looks at the clock. Pairs nest. Uses one real-time signal (SIGRTMAX -
 * 1), with a handler that stays.
 */
#ifndef DYNTRACE_SYSCALL_TIMEOUT_H
#define DYNTRACE_SYSCALL_TIMEOUT_H

#include <stdbool.h>

void tick_begin(void);
void tick_end(void);
/* False: there is no timer, don't block. */
bool tick_is_running(void);

/* What to do at each tick while a call is made that can't be interrupted. Only what is safe in a
 * signal handler. NULL: nothing. */
void tick_do(void (*function)(void *data), void *data);

#endif
