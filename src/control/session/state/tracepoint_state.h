/*
 * tracepoint_state.h - a tracepoint of a session: its place, its values, its counts.
 *
 * The parts that belong to one tracer are that tracer's own (`count`, `lttng`, `call`).
 */
#ifndef DYNTRACE_TRACEPOINT_STATE_H
#define DYNTRACE_TRACEPOINT_STATE_H

#include "control/placement/plan.h"
#include "control/values/shape/values.h"
#include "request.h"

struct call_use;
struct count_use;
struct lttng_use;

/* What was counted under an event id before, of another tracepoint or by this one under another id. */
struct tally {
	uint64_t hits, lost, exits, exits_lost, unwound, missed;
};

struct tracepoint {
	char *name;
	struct request *request;
	const struct tracer *tracer;
	enum tracepoint_kind kind;
	bool from_glob;
	bool is_off; /* switched off by the user */
	bool waits; /* for its module: it has no place */
	bool has_type; /* its events have their id */
	struct probe probe; /* its place's name is its own */
	struct values values;
	bool raised; /* its marker's semaphore is */
	VEC(char *) contexts; /* TYPEs: the request's, and those that were added */
	struct error *exit_refusal; /* why its exit isn't recorded, although that was asked for */
	struct error *still_waits; /* why */
	bool has_counter;
	uint32_t counter; /* of dt_pool.counters */
	uint64_t placed_ns; /* of CLOCK_MONOTONIC */
	struct lttng_use *lttng; /* lttng_tracer.c; NULL: not its tracer */
	struct count_use *count; /* count_tracer.c; NULL: it counts nowhere */
	struct call_use *call; /* call_tracer.c; NULL: not its tracer */
	struct tally before; /* subtracted: by others, under its id */
	struct tally past; /* added: its own, under other ids */
	/* its id was another one before, whose events may not all have been read: */
	bool has_former;
	uint32_t former_id;
	struct tally former_before;
};

struct tracepoint_list {
	struct tracepoint **items;
	size_t count, room;
};

/* Does an event of it hold arguments and results? */
bool tracepoint_has_values(const struct tracepoint *tracepoint);
/* Does anybody count its exits? */
bool tracepoint_knows_exits(const struct tracepoint *tracepoint);
/* Its tracer, if it is placed; else NULL. */
const struct tracer *tracepoint_placed_tracer(const struct tracepoint *tracepoint);
/* Is it placed, with that tracer? Is any of the list? */
bool tracepoint_is(const struct tracepoint *tracepoint, enum tracer_kind kind);
bool tracepoint_list_uses(const struct tracepoint_list *list, enum tracer_kind kind);
/* Does the list have events for the trace, or at least for the pool? */
bool tracepoint_list_has_trace(const struct tracepoint_list *list);
bool tracepoint_list_uses_pool(const struct tracepoint_list *list);

#endif
