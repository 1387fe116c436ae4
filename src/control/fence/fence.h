/*
 * fence.h - which calls of dyntrace the filters of a target forbid.
 *
 * fence.c lists every system call that the agent makes by itself, and that the controller makes in
 * a borrowed thread, with its arguments (H26). A thread's filters answer for each of them before
 * the first is made. Each call belongs to a part of dyntrace, which works only if all its calls are
 * allowed in all threads.
 */
#ifndef DYNTRACE_FENCE_H
#define DYNTRACE_FENCE_H

#include "control/base/error.h"
#include "filters.h"

enum fence_part {
	FENCE_RECORD = 1, /* the agent: find the thread, fetch chunks */
	FENCE_READ = 2, /* the agent: values behind pointers, backtraces, frames that are gone */
	FENCE_LIVE = 4, /* the agent: which threads have ended */
	FENCE_NAME = 8, /* the agent: names of threads (comm) */
	FENCE_SIGNAL = 16, /* the agent: traps, and handlers in front of the target's */
	FENCE_CONTROL = 32, /* the controller: map and unmap memory, change signal actions */
	FENCE_HOME = 64, /* a borrowed thread goes home by itself if the controller is killed */
	FENCE_SHARE = 128, /* the controller: pass descriptors */
	FENCE_WORK = 256, /* the agent: whether dyntrace is at work */
	FENCE_STACK = 512, /* the agent: is a stack the thread's own? */
	FENCE_LINES = 1024, /* the agent: write a line at the hit */
	FENCE_FRAME = 2048, /* the controller: how large are the frames of signals? */
	FENCE_INFO = 4096, /* the agent: end the program by a signal as it came */
};

#define FENCE_CALLS_MAX 64

struct answers; /* answers.h */

struct fence {
	size_t threads; /* that have a filter */
	size_t filters; /* of the thread that has most */
	uint64_t judged; /* the generation of answers that `answers` has already */
	/* the strictest of all threads, by row of the table */
	uint32_t answers[FENCE_CALLS_MAX];
};

/* Begins without any filter. */
void fence_begin(struct fence *fence);

/* Adds a thread in a ptrace stop of ours, whose filters are in `known` then. Its filters can't be
 * read: fails if `required`, else it counts as having none. */
struct error *fence_add_thread(struct fence *fence, struct answers *known, pid_t tid,
			       bool required);

/* The parts, enum fence_part, of which a call is forbidden. */
unsigned fence_closed(const struct fence *fence);

/* The first forbidden call of these parts, and what the filter does: "kills for memfd_create". The
 * caller frees. NULL: all are allowed, or out of memory. */
char *fence_describe(const struct fence *fence, unsigned parts);

/* A call of the table, for a trial: its number, and arguments with 0 for those that may be any. */
size_t fence_rows(void);
long fence_row(size_t row, uint64_t ret_args[6]);
/* That call as a filter sees it, with unknown words, the place it comes from among them: the
 * agent's code isn't mapped yet, and a filter that asks for the place may say anything. */
struct bpf_call fence_row_call(size_t row);

/* The row whose call this is one of; fence_rows(): none. */
size_t fence_find_row(long number, const uint64_t args[6]);

/* The name of a system call that dyntrace makes; "a system call" for others. */
const char *fence_call_name(long number);

/* The error for filters that can't be read. */
struct error *fence_unreadable(void);

/* One call, with all its words known. */
struct bpf_call fence_call(long number, const uint64_t args[6], uint64_t rip);

#endif
