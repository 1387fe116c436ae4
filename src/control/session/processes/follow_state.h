/*
 * follow_state.h - the programs that a session's target has executed (--follow-exec), and further
 * processes of the same trace (-p NAME).
 *
 * follow_exec/ makes a session for each of them: an *exec session*, whose parent is the session of
 * the target. A request that a program can't satisfy is no error.
 *
 * (F1) An exec session borrows writer, pool and types from its parent, which ends last. A parent
 *      has no parent.
 * (F2) Exec sessions of the same program with the same tracepoints have the same event ids. A
 *      joined process shares them with the parent, too: its hits count as the parent's.
 * (F3) An exec session stays until its parent has its counts. At the end, counts that can't be
 *      kept are told.
 */
#ifndef DYNTRACE_FOLLOW_STATE_H
#define DYNTRACE_FOLLOW_STATE_H

#include "control/session/state/session_state.h"

struct launch;

struct exec_session {
	struct session *session;
	struct launch *launch; /* owns the process; NULL: `joined` is the process */
	struct proc *joined; /* owned: a process that ran before (follow_exec_join) */
};

/* A tracepoint of an exec session, for the summary: it outlives the exec session. */
struct follow_row {
	char *name; /* NAME@PROGRAM */
	taddr address;
	const char *how;
	uint32_t id;
	bool has_exit, filters_exits;
	const char *tracer;
	uint64_t placed_ns; /* of CLOCK_MONOTONIC */
	struct dt_cell *counted; /* in exec sessions that are over; NULL: nothing; owned */
	bool has_times; /* `counted` is a whole cell */
};

/* The event types of an exec session. */
struct follow_block {
	size_t first, count; /* ids */
	size_t row; /* of its first tracepoint */
};

/* One per request: did a program have it, and if not, why? */
struct follow_request {
	bool found;
	struct error *missing;
};

struct follow {
	VEC(struct exec_session) execs;
	VEC(struct follow_row) rows;
	VEC(struct follow_block) blocks;
	VEC(struct follow_request) requests;
	uint64_t next_look; /* for exec sessions that are over; ns of CLOCK_MONOTONIC */
	uint32_t next_exec; /* the entry of dt_pool.execs to look at next */
	unsigned late; /* threads that asked and then executed nothing */
	bool blind; /* the user knows that the target's own execve can't be noticed */
	size_t first_type; /* of an exec session: the first of its new event ids */
	size_t own_types; /* of a parent: its types when the first process was joined */
	bool is_joined; /* of an exec session: its process was joined */
};

bool follow_create(struct session *session);
void follow_free(struct session *session);

/* Notes that this program has the request (`error` NULL), or why it doesn't. Takes the error; fails
 * if out of memory. */
struct error *follow_note_missing(struct session *session, size_t request, struct error *error);
/* Fails if the target has no request, and its execve can't be noticed. */
struct error *follow_check(struct session *session);
/* Joins the parent's trace, instead of making a new one. */
struct error *follow_join_trace(struct session *exec);

/* follow_rows.c: takes the ids of an earlier exec session (F2), or else adds new rows. */
struct error *follow_share_types(struct session *exec, size_t first);

#endif
