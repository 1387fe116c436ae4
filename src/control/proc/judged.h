/*
 * judged.h - filters of a process that somebody else has read for us (verdict.h).
 *
 * A worker of the daemon may not read filters. Its asker may, in a stop of the asker's own: so no
 * thread may be held while we ask.
 */
#ifndef DYNTRACE_JUDGED_H
#define DYNTRACE_JUDGED_H

#include "proc.h"

/* The process that reads filters for a worker: of its target, and of what that has forked. */
struct asker {
	struct error *(*ask)(void *context, pid_t pid, struct fence_verdict *ret_verdict);
	void *context;
};

/* True: we go by proc->verdict, and read no filter ourselves. */
static inline bool judged_is(const struct proc *proc)
{
	return proc->verdict.magic == VERDICT_MAGIC;
}

/* Asks if a thread has other filters than were judged. Does nothing without an asker. On failure
 * the verdict is as before: calls in threads with other filters are refused (E3). */
struct error *judged_renew(struct proc *proc);

/* (E3) Does proc->verdict hold for the thread? ERROR_REFUSED: it doesn't; ERROR_GONE: it has
 * ended. */
struct error *judged_check(const struct proc *proc, pid_t tid);

#endif
