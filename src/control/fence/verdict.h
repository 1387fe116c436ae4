/*
 * verdict.h - what a process that may read filters says to one that may not (the daemon's asker).
 *
 * (E3) A verdict holds for a thread that has as many filters as were judged. Filters are only ever
 *      added and inherited, and all threads had the same ones when they were judged, held together:
 *      whichever thread of the process, or of its later children, has that many has the same.
 */
#ifndef DYNTRACE_VERDICT_H
#define DYNTRACE_VERDICT_H

#include "fence.h"

struct fence_verdict {
	uint32_t magic; /* VERDICT_MAGIC: it was judged */
	uint32_t filters; /* of each thread; 0: none has any */
	uint32_t answers[FENCE_CALLS_MAX]; /* by row of fence.c's table */
	uint32_t restart; /* to restart_syscall */
	char why[160]; /* not "": it can't be judged */
};

#define VERDICT_MAGIC 0x74647276u

/* Judges the threads of a process, all of which are in a ptrace stop of ours. `why` is "" then. */
struct error *verdict_make(const pid_t *tids, size_t count, struct fence_verdict *ret_verdict);

/* (E3) Does it hold for a thread with that mode of seccomp and that many filters? */
bool verdict_holds(const struct fence_verdict *verdict, int mode, int filters);

/* A fence with the verdict's answers; fence_end frees it. */
void verdict_fence(const struct fence_verdict *verdict, struct fence *ret_fence);

/* The answer to a call. One that is in no row of the table wasn't judged: it counts as killing. */
uint32_t verdict_answer(const struct fence_verdict *verdict, long number, const uint64_t args[6]);

#endif
