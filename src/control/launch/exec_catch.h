/*
 * exec_catch.h - be there when a process begins another program.
 *
 * The thread waits, in the target, for us to come (struct dt_exec). It is seized, let go, and
 * watched through its execve: at the first instruction of the new program it is held, for
 * launch_adopt. Everywhere else it goes on as if nothing had happened.
 */
#ifndef DYNTRACE_EXEC_CATCH_H
#define DYNTRACE_EXEC_CATCH_H

#include "control/proc/proc.h"

enum exec_result {
	EXEC_BEGUN, /* it is held, in the stop that reports its exec */
	EXEC_FAILED, /* there was no such program: it goes on in the old one */
	EXEC_GONE, /* it has ended */
	/* the program runs with other rights, which it would lose if we watched: it goes on without
	 * us */
	EXEC_GAINS,
	EXEC_LATE, /* nothing of this happened in time: it goes on without us */
};

struct exec_watch {
	void (*seized)(void *context); /* tells the thread that it may go on */
	void (*idle)(void *context); /* again and again while there is nothing to do but wait */
	void *context;
};

/* `proc` is the process as it is before; if its end is seen, it says so. */
struct error *exec_catch(struct proc *proc, pid_t tid, const struct exec_watch *watch,
			 enum exec_result *ret_result);

#endif
