/*
 * follow_state.h - what a session knows of the programs that its target has begun (--follow-exec).
 *
 * follow_exec/ makes a session for each of them: an *image*. A request that a program doesn't have
 * is no error.
 *
 * (F1) An image's session borrows writer, pool and types from its parent, which ends last.
 * (F2) Images of the same program with the same tracepoints have the same event ids.
 */
#ifndef DYNTRACE_FOLLOW_H
#define DYNTRACE_FOLLOW_H

#include "control/session/state/session_state.h"

struct launch;

struct exec_session {
	struct session *session;
	struct launch *launch; /* owns the process */
};

/* A tracepoint of an image, for the summary: it outlives the image. */
struct follow_row {
	char *name; /* NAME@PROGRAM */
	taddr address;
	const char *how;
	uint32_t id;
	bool has_exit, filters_exits;
};

/* The kinds of events of an image: ids from first on. */
struct follow_block {
	size_t first, count;
	size_t row; /* of its first tracepoint */
};

/* By request: has a program had it, and if not, why? */
struct follow_request {
	bool found;
	struct error *missing;
};

struct follow {
	VEC(struct exec_session) images;
	VEC(struct follow_row) rows;
	VEC(struct follow_block) blocks;
	VEC(struct follow_request) requests;
	uint64_t next_look; /* ns: for images that are over */
	uint32_t next_exec; /* of dt_pool.execs, to be looked at */
	unsigned late; /* who asked and then began nothing */
	bool blind; /* the target's own execve can't be seen, and that was told */
	size_t first_type; /* of an image: its own event ids begin there */
};

bool follow_create(struct session *session);
void follow_free(struct session *session);

/* A request that this program doesn't have is no error: notes why, gives NULL. */
struct error *follow_note_missing(struct session *session, size_t request, struct error *error);
/* Nothing that was asked for is there, and nothing can be begun: then it is an error after all. */
struct error *follow_check(struct session *session);
/* In the place of a new trace: an image's events go to its parent's. */
struct error *follow_join_trace(struct session *session);

/* follow_rows.c: (F2) ids that an earlier image has, or else new rows. */
struct error *follow_share_types(struct session *image, size_t first);

#endif
