/*
 * patience.h - how long is it worth waiting for something that a thread of a process will do?
 *
 * (S18) A while by the clock in any case; longer as long as a thread that wants to run gets no
 *      processor: on a busy machine a thread that has one instruction to go may stand for seconds.
 *      A thread that sleeps, or that has run and still isn't done, isn't waited for.
 *
 * The kernel counts the time on a processor of each thread, in ns (/proc/PID/task/TID/schedstat).
 */
#ifndef DYNTRACE_PATIENCE_H
#define DYNTRACE_PATIENCE_H

#include "proc.h"

#define PATIENCE_MOST_MS 30000 /* as a stop waits for threads (S13) */

struct run_time {
	pid_t tid;
	uint64_t ns; /* on a processor so far */
};

struct patience {
	VEC(struct run_time) since; /* of its beginning */
	uint64_t least, most; /* ms, by the clock of now_ms */
};

/* Notes the threads of now. What can't be read is left out. The end: patience_free. */
void patience_begin(struct patience *ret_patience, const struct proc *proc, unsigned least_ms,
		    unsigned most_ms);
/* Is it over? */
bool patience_ends(const struct patience *patience, const struct proc *proc);
void patience_free(struct patience *patience);

#endif
