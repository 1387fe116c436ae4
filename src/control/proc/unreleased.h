/*
 * unreleased.h - threads that ptrace couldn't let go of yet.
 *
 * The kernel detaches only from a thread that is in a ptrace stop. One that was seized and then
 * stayed in uninterruptible sleep past the time limit will stop some day, and must be let go then;
 * an ended leader must be waited for before its parent sees its end. They are kept here, per
 * calling thread (ptrace is tied to it), and settled whenever the controller looks at any process.
 */
#ifndef DYNTRACE_UNRELEASED_H
#define DYNTRACE_UNRELEASED_H

#include <stdbool.h>
#include <sys/types.h>

/* own_child: its end is for another waiter in this process, leave it. */
void unreleased_add(pid_t tid, bool own_child);
/* True if it was on the list; it isn't any more. */
bool unreleased_take(pid_t tid);
/* Lets go of those that have stopped or ended meanwhile. Never blocks. Free when there are none. */
void unreleased_settle(void);

#endif
