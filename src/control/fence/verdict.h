/*
 * verdict.h - what a process that may read filters says to one that may not (the daemon's asker).
 *
 * (E3) A verdict is the strictest of all threads, which were held together. Filters are only ever
 *      added and inherited. So it holds for whichever thread of the process, or of its later
 *      children, has as few filters as the thread that had fewest: it has those of a judged thread.
 *      It holds for a thread with more only if that very thread was judged, with that many.
 */
#ifndef DYNTRACE_VERDICT_H
#define DYNTRACE_VERDICT_H

#include "fence.h"

/* A thread, told from later ones with its tid by when it began. */
struct verdict_thread {
	pid_t tid;
	uint32_t filters;
	uint64_t start_time;
};

#define VERDICT_THREADS_MAX 256u

struct fence_verdict {
	uint32_t magic; /* VERDICT_MAGIC: it was judged */
	uint32_t least, most; /* filters of a thread; most 0: none has any */
	uint32_t answers[FENCE_CALLS_MAX]; /* by row of fence.c's table */
	uint32_t restart; /* to restart_syscall */
	char why[160]; /* not "": it can't be judged */
	uint32_t thread_count;
	struct verdict_thread threads[VERDICT_THREADS_MAX]; /* that have more than the least */
};

#define VERDICT_MAGIC 0x74647276u

/* Judges the threads of a process, all of which are in a ptrace stop of ours, and fills in how many
 * filters each has. `why` is "" then. */
struct error *verdict_make(struct verdict_thread *threads, size_t count,
			   struct fence_verdict *ret_verdict);

/* (E3) Does it hold for any thread with that mode of seccomp and that many filters? */
bool verdict_holds_for_any(const struct fence_verdict *verdict, int mode, int filters);
/* (E3) Does it hold for this one, which has a filter? */
bool verdict_holds_for(const struct fence_verdict *verdict, const struct verdict_thread *thread);

/* A fence with the verdict's answers. */
void verdict_fence(const struct fence_verdict *verdict, struct fence *ret_fence);

/* The answer to a call. One that is in no row of the table wasn't judged: it counts as killing. */
uint32_t verdict_answer(const struct fence_verdict *verdict, long number, const uint64_t args[6]);

#endif
