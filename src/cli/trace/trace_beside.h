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
struct own *trace_beside_find(const struct beside *beside, const char *name);

#endif
