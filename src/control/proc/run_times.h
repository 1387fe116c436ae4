/*
 * run_times.h - do the threads of a process get to run?
 *
 * A wait for something that a thread will do by itself must not be measured by the clock alone: on
 * a busy machine the thread may not have run at all meanwhile. The kernel counts the time on a
 * processor of each thread, in ns (/proc/PID/task/TID/schedstat).
 */
#ifndef DYNTRACE_RUN_TIMES_H
#define DYNTRACE_RUN_TIMES_H

#include "proc.h"

struct run_time {
	pid_t tid;
	uint64_t ns; /* on a processor so far */
};

struct run_times {
	struct run_time *items;
	size_t count, room;
};

/* Notes the threads of now. What can't be read is left out. */
void run_times_note(const struct proc *proc, struct run_times *ret_times);
/* Does one of those threads want to run, and has run for less than that long since? A thread that
 * sleeps has done what it had to. */
bool run_times_starve(const struct proc *proc, const struct run_times *since, uint64_t ns);
void run_times_free(struct run_times *times);

#endif
