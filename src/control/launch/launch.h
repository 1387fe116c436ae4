/*
 * launch.h - start a command and hold it at its first instruction.
 *
 * The command inherits our standard streams, environment, terminal and signal state: for it nothing
 * differs from being started by a shell.
 */
#ifndef DYNTRACE_LAUNCH_H
#define DYNTRACE_LAUNCH_H

#include "control/stop/stop.h"

struct launch;

/* For a program that changes its own signal handling: called first thing in main, it makes commands
 * start with what we were started with. Without it they get what is in force when they are started. */
void launch_remember_signals(void);

/*
 * Looks argv[0] up in PATH as execvp does and starts it. When it returns, the (final, for #!
 * scripts the interpreter's) image is loaded and its first instruction not executed yet; the thread
 * is in a ptrace stop, for stop_adopt. Fails with ERROR_NOT_FOUND (127) or ERROR_NOT_PERMITTED
 * (126), and says which name.
 */
struct error *launch_start(char *const argv[], struct launch **ret_launch);
/* A process that has just begun a program, in the stop that reports it (exec_catch.h), instead of a
 * command of ours: from here on it is as after launch_start. On failure it has been let go. */
struct error *launch_adopt(pid_t pid, struct launch **ret_launch);
struct proc *launch_proc(struct launch *launch); /* borrowed */

/* Runs the stopped command on until ld.so has mapped and relocated all libraries it was linked
 * with, before any constructor runs. *ret_loaded false: it is static or its loader is unknown; it
 * hasn't moved then. */
struct error *launch_run_to_loaded(struct launch *launch, bool *ret_loaded);

/* Runs the stopped command on until it is about to execute the instruction there. */
struct error *launch_run_to(struct launch *launch, taddr at);

/* Lets it run, untraced by ptrace from here on. */
struct error *launch_go(struct launch *launch);

/* Reaps it if it has ended: *ret_ended. *ret_status as waitpid gives it. Never blocks. */
struct error *launch_poll(struct launch *launch, bool *ret_ended, int *ret_status);

/* Ends what it may hold: a command that was never let go is killed, a process that was adopted is
 * let go. */
void launch_free(struct launch *launch);

#endif
