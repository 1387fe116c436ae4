/*
 * unreleased.h - threads that ptrace couldn't let go of yet.
 *
 * The kernel detaches only from a thread that is in a ptrace stop. A thread that was seized and
 * then stayed in uninterruptible sleep past the time limit stops some day, and must be let go then;
 * an ended leader must be waited for before its parent sees its end. This list keeps both, one list
 * per calling thread (ptrace is tied to it). Nothing depends on a later look (H31): SIGCHLD tells
 * when such a thread stops, and a handler lets it go at once.
 */
#ifndef DYNTRACE_UNRELEASED_H
#define DYNTRACE_UNRELEASED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* `prepare` is called with a thread that has come to its stop, before it is let go. It must be safe
 * in a signal handler. */
void unreleased_prepare_by(void (*prepare)(pid_t tid));
/* Makes room for that many more, before threads are seized: none is forgotten where there is no
 * memory. */
bool unreleased_reserve(size_t more);
/* own_child: another part of this process waits for the thread's end, so don't reap it. */
void unreleased_add(pid_t tid, bool own_child);
/* Takes the thread off the list. False: it wasn't on it. */
bool unreleased_take(pid_t tid);
/* Lets go of threads that have stopped or ended meanwhile. Never blocks. Free of cost if the list
 * is empty. */
void unreleased_settle(void);

#endif
