/*
 * syscall_timeout.h - interrupt blocking calls of the calling thread after a few ms.
 *
 * Between syscall_timeout_begin and syscall_timeout_end the thread gets a timer signal every few
 * ms: waitpid returns with EINTR, and the caller looks at the clock. Pairs nest. Uses one real-time
 * signal (SIGRTMAX - 1), whose handler stays installed.
 */
#ifndef DYNTRACE_SYSCALL_TIMEOUT_H
#define DYNTRACE_SYSCALL_TIMEOUT_H

#include <stdbool.h>

void syscall_timeout_begin(void);
void syscall_timeout_end(void);
/* False: no timer is running, don't block. */
bool syscall_timeout_is_running(void);

/* Calls `function` at each tick, for a blocking call that EINTR doesn't end. It must be safe in a
 * signal handler. NULL: nothing. */
void syscall_timeout_do(void (*function)(void *data), void *data);

#endif
