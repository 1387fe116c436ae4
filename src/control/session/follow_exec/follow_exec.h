/*
 * follow_exec.h - programs that the target and its children begin (--follow-exec).
 *
 * A probe of our own on execve makes the thread wait until we have it in hand (own_probes.c, struct
 * dt_exec). At the first instruction of the new program, or when its libraries are loaded, the same
 * requests are resolved in it, and the agent and the probes are put in: an *image*, which is a
 * session of its own with its parent's buffers, reader, trace and kinds of events (F1, F2 of
 * follow_state.h).
 */
#ifndef DYNTRACE_FOLLOW_EXEC_H
#define DYNTRACE_FOLLOW_EXEC_H

struct session;

/* After session_create, for a session whose options say follow_exec. */
void follow_exec_enable(struct session *session);

#endif
