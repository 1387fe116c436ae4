/*
 * trace_beside.h - `dyntrace trace -p` of a process that a daemon, or another `dyntrace trace`,
 * traces already.
 *
 * A process has one controller. So the controller gets the tracepoints, records their events in its
 * trace of the process, and removes them at the end; then this command copies its own events from
 * there to a trace of its own. Any number of `trace` can do that at once beside a daemon, and one
 * beside another `trace` (trace_host.h).
 */
#ifndef DYNTRACE_TRACE_BESIDE_H
#define DYNTRACE_TRACE_BESIDE_H

#include "client/client.h"
#include "control/base/vec.h"
#include "control/ctf/read/trace_copy.h"
#include "trace_begin.h"

/* A tracepoint of ours. Another tracepoint may have had the name that it would have alone: then
 * `suffix` bytes at the end of its name, such as "-2", aren't shown. */
struct own {
	char *name;
	size_t suffix;
	uint64_t hits, exits;
	struct tracepoint_info info; /* the rest, as the controller tells it */
};

struct beside {
	struct trace_run *run;
	struct client *client;
	char target[16];
	char *output; /* run->output as an absolute path */
	VEC(struct own) own; /* by name, once all are there */
	VEC(struct name_list) made; /* names of each WHAT, in the order of making */
	char *trace; /* the controller's; NULL: none yet */
	struct trace_dir *directory; /* of `trace`, for the heir */
	bool is_listed; /* the controller knows the process */
	bool is_ours; /* the other dyntrace has left the process to us */
	bool is_heir; /* we have taken it over; !is_ours: because the other one was killed */
	struct trace_copy copy; /* of our events */
	uint64_t since, until; /* clocks */
	uint64_t begun_ns, ended_ns; /* of CLOCK_MONOTONIC */
};

struct error *trace_beside_run(struct trace_run *run);

/* Must recording end: Ctrl-C, --for, the end of the target? */
bool trace_beside_is_over(const struct beside *beside);
/* A tracepoint of ours; NULL: the name isn't one. */
struct own *trace_beside_find(const struct beside *beside, const char *name);

/* ---- beside_requests.c ---- */

/* Asks whether the controller has the process, and where its trace is. */
struct error *beside_requests_look_up(struct beside *beside);
/* Adds the tracepoints of one WHAT, and notes their names. */
struct error *beside_requests_add(struct beside *beside, const struct option_value *value);
/* Removes all that were added. The first error counts. */
struct error *beside_requests_remove(struct beside *beside);
/* Reads the counts, takes the tracepoints out, and has all events written. */
struct error *beside_requests_end(struct beside *beside);
/* Prints a note of the controller's, and notes whether it leaves the process to us. */
struct error *beside_requests_note(void *context, const struct wire_message *answer);

#endif
