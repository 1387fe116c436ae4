/*
 * launch.h - start a command and hold it at its first instruction.
 *
 * The command inherits our standard streams, environment, terminal and signal state, as if a shell
 * had started it.
 */
#ifndef DYNTRACE_LAUNCH_H
#define DYNTRACE_LAUNCH_H

#include "control/stop/stop.h"

struct launch;

/* For a program that changes its own signal handling: called first in main, it makes commands start
 * with the signal state that this program was started with. Without it they get the current one. */
void launch_remember_signals(void);

/*
 * Looks argv[0] up in PATH as execvp does and starts it. On return the program (of a #! script the
 * interpreter) is loaded, and its first instruction not executed yet; the thread is in a ptrace
 * stop, for stop_adopt. Fails with ERROR_NOT_FOUND (127) or ERROR_NOT_PERMITTED (126) and the name.
 */
struct error *launch_start(char *const argv[], struct launch **ret_launch);
/* Takes over a process that has just begun a program, in the stop that reports it (exec_catch.h).
 * From here on it is as after launch_start. On failure it has been let go. `before` is the process
 * before its exec: if launch_adopt reaps its end, before->reaped says so. */
struct error *launch_adopt(struct proc *before, struct launch **ret_launch);
struct proc *launch_proc(struct launch *launch); /* borrowed */

/* Runs the stopped command until ld.so has mapped and relocated all libraries it was linked with,
 * before any constructor runs. *ret_loaded false: it is static or its loader is unknown, and it
 * hasn't moved. */
struct error *launch_run_to_loaded(struct launch *launch, bool *ret_loaded);

/* Runs the stopped command until it is about to execute the instruction at `at`. */
struct error *launch_run_to(struct launch *launch, taddr at);

/* Lets the command run, without ptrace from here on. */
struct error *launch_go(struct launch *launch);

/* Reaps the command if it has ended: *ret_ended. *ret_status is waitpid's. Never blocks. */
struct error *launch_poll(struct launch *launch, bool *ret_ended, int *ret_status);

/* Kills a command that was never let go; lets go of an adopted process. */
void launch_free(struct launch *launch);

#endif
