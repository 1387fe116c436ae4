/*
 * safepoint.h - call a function of the target's own libraries at a safe point.
 *
 * The function may take locks and allocate memory, so it is called only on a thread that provably
 * holds no lock (H27): a thread that sleeps in a system call of a short list, with no frame of the
 * dynamic loader and no signal frame on its stack. All other threads run on meanwhile.
 */
#ifndef DYNTRACE_SAFEPOINT_H
#define DYNTRACE_SAFEPOINT_H

#include "control/stop/stop.h"

/* `held`: NULL, or the only thread of a command whose loader has just finished. With NULL, waits at
 * most timeout_ms for a thread at a safe point; ERROR_REFUSED: no thread got there. */
struct error *safepoint_call(struct proc *proc, struct stop *held, taddr function,
			     const uint64_t args[3], unsigned timeout_ms);

enum safepoint_rest {
	REST_NOT,
	REST_CERTAIN,
	REST_BY_STACK, /* only if the stack shows a function that waits */
};

/* Judges a system call, given as a line of /proc/PID/task/TID/syscall ("NUMBER ARGUMENTS..."): is a
 * thread in it at rest? `is_stream` tells whether a descriptor of the target is a pipe, a socket or
 * a terminal. */
enum safepoint_rest safepoint_judge(const char *line, bool (*is_stream)(void *context, int fd),
				    void *context);

#endif
