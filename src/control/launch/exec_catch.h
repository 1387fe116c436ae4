/*
 * exec_catch.h - hold a process at the moment it begins another program.
 *
 * The thread waits, in the target, for the controller (struct dt_exec). exec_catch seizes it, lets
 * it go, and watches it through its execve: at the first instruction of the new program it is held,
 * for launch_adopt. In all other cases it goes on as if nothing had happened.
 */
#ifndef DYNTRACE_EXEC_CATCH_H
#define DYNTRACE_EXEC_CATCH_H

#include "control/proc/proc.h"

enum exec_result {
	EXEC_BEGUN, /* the thread is held, in the stop that reports its exec */
	EXEC_FAILED, /* execve failed: the old program goes on */
	EXEC_GONE, /* the process has ended */
	/* the new program has more rights, and would lose them under ptrace: it goes on without
	 * us */
	EXEC_GAINS,
	EXEC_LATE, /* no execve in time: the process goes on without us */
};

struct exec_watch {
	void (*seized)(void *context); /* called once: tells the thread to go on */
	void (*idle)(void *context); /* called again and again during waits; NULL: nothing */
	void *context;
};

/* `proc` is the process before its exec. If exec_catch reaps its end, proc->reaped says so. */
struct error *exec_catch(struct proc *proc, pid_t tid, const struct exec_watch *watch,
			 enum exec_result *ret_result);

#endif
