/*
 * trace_keeper.h - keepers for the files of a target: of its trace, and of logs.
 */
#ifndef DYNTRACE_TRACE_KEEPER_H
#define DYNTRACE_TRACE_KEEPER_H

#include <stdbool.h>

#include "control/base/error.h"
#include "daemon/supervisor/requests/identity.h"

struct request;
struct target;

/*
 * A directory that a keeper may make, for a call that is on its way to the worker. A worker has its
 * target's rights, and a hostile target may have taken them over: (D7) the directory that a worker
 * names is believed only if a keeper was started for it, and it belongs to that keeper's user.
 */
struct promise {
	char *path;
	bool numbered; /* "-2", "-3", ... may follow */
	uint32_t sequence; /* of the call */
	struct identity who;
};

/*
 * (D10) The trace of a process with tracepoints of root's is root's: another user could remove it,
 *       or let it fill up, and so end the recording of all. Root's first tracepoint in a process
 *       ends a trace of other users, with their tracepoints, and others begin none behind it. The
 *       daemon's own user counts as root.
 *
 * The keeper that a WIRE_ADD needs; -1: none. *ret_path: the directory that it may make; NULL: it
 * makes none.
 */
struct error *trace_keeper_for(struct target *target, const struct request *request, int *ret_fd,
			       struct promise *ret_promise);
/* The keeper of the trace that a dead worker left, for the next; -1: none. */
int trace_keeper_again(struct target *target);

/* Notes a promise for the call that was sent last; owns its path. */
void trace_keeper_promise(struct target *target, struct promise *promise);
/* The next call may go on with the trace that a worker before has made. */
void trace_keeper_promise_again(struct target *target);
/* The worker has answered that call: promises of calls before it won't be kept, but for the last of
 * them. UINT32_MAX: none will. */
void trace_keeper_forget(struct target *target, uint32_t answered);
/* (D7) The promise that the directory is of; NULL: of none. */
const struct promise *trace_keeper_find(const struct target *target, const char *path);

#endif
