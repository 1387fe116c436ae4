/*
 * exec_call.h - follow threads that call execve: each waits until we hold it (struct dt_exec).
 */
#ifndef DYNTRACE_EXEC_CALL_H
#define DYNTRACE_EXEC_CALL_H

#include "control/session/processes/follow_state.h"

/* Follows the thread that has asked by that entry of dt_pool.execs. True: one had asked. */
bool exec_call_look(struct session *root, struct dt_exec *exec);
/* Frees an entry of dt_pool.execs, and lets the thread go that waits for it. */
void exec_call_release(struct dt_exec *exec);

#endif
