/*
 * follow_exec.h - trace the programs that the target and its children execute (--follow-exec).
 *
 * A probe of our own on execve makes the calling thread wait until we hold it (own_probes.c, struct
 * dt_exec). At the first instruction of the new program, or when its libraries are loaded, the same
 * requests are resolved in it, and the agent and the probes are injected. Each program gets an exec
 * session, which shares buffers, reader, trace and event types with its parent (F1, F2 of
 * follow_state.h).
 */
#ifndef DYNTRACE_FOLLOW_EXEC_H
#define DYNTRACE_FOLLOW_EXEC_H

struct session;

struct error;
struct proc;

/* Traces one more running process in the trace of a session that has begun and whose options say
 * `several`. Takes the process, also on failure. A process that has none of the requests joins,
 * too: a library to come may have them. */
struct error *follow_exec_join(struct session *root, struct proc *proc);

/* Enables it, after session_create, for a session whose options have follow_exec. */
void follow_exec_enable(struct session *session);

#endif
