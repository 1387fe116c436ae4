/*
 * exec_session.h - make exec sessions (follow_state.h), and free them.
 *
 * What an exec session has belongs to it. The parent's list owns the structs.
 */
#ifndef DYNTRACE_EXEC_SESSION_H
#define DYNTRACE_EXEC_SESSION_H

#include "control/session/processes/follow_state.h"

/* Makes room for one more: a program with probes is always in the list (H32). */
struct error *exec_session_reserve(struct session *root);
/* Makes a session with the requests of the parent, whose trace and types it shares (F1). */
struct error *exec_session_create(struct session *root, struct proc *proc,
				  struct session **ret_exec);
/* Makes an exec session of the program that the process has begun, and lets it run. Tells why, if
 * it can't be traced. The process is in the stop that reports its exec. `before`: what it was until
 * now. */
void exec_session_follow(struct session *root, struct proc *before);
/* Frees what an exec session has, also one that is not in the list yet. */
void exec_session_free(struct exec_session *exec);
/* A stop of an exec session may have seen the end of the command: for launch_poll. */
void exec_session_pass_end(struct session *root, const struct proc *proc);
/* Tells that programs which the process executes can't be followed. */
void exec_session_tell_blind(const struct session *root, const struct proc *proc);

#endif
