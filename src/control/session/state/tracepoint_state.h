/*
 * tracepoint_state.h - a tracepoint of a session: its place, its values, its counts.
 *
 * State of one tracer is that tracer's own (`count`, `lttng`, `call`).
 */
#ifndef DYNTRACE_TRACEPOINT_STATE_H
#define DYNTRACE_TRACEPOINT_STATE_H

#include "control/placement/plan.h"
#include "control/values/shape/values.h"
#include "request.h"

struct call_use;
struct sync_use;
struct count_use;
struct demotion;
struct lttng_use;

/* Counts under an event id: another tracepoint's, or this one's under an earlier id. */
struct tally {
	uint64_t hits, lost, exits, exits_lost, unwound, missed;
	/* hits and exits whose lines the log left out */
	uint64_t left_out, exits_left_out;
};

struct tracepoint {
	char *name;
	struct request *request;
	const struct tracer *tracer;
	enum tracepoint_kind kind;
	bool from_glob;
	bool is_off; /* switched off by the user */
	enum tramp_switch level; /* chosen by session/budget */
	bool waits; /* for its module: it has no place yet */
	bool was_placed; /* it waits for a module that was there, and was unloaded */
	bool has_type; /* probe.event.id is valid */
	struct probe probe; /* place.name is owned */
	struct values values;
	bool raised; /* its marker's semaphore is raised */
	VEC(char *) contexts; /* TYPEs: of the request, and added later */
	struct error *exit_refusal; /* why its exit isn't recorded as asked */
	/* Probes at the ends of its function (R9); complete, or none. */
	VEC(struct probe *) leaves;
	VEC(struct probe *) left; /* likewise: released, but an exchanged site may know them */
	struct error *late_refusal; /* why it has none, although calls come from a runtime (R6) */
	struct error *still_waits; /* why it does, although its module is loaded */
	bool has_counter;
	uint32_t counter; /* of dt_pool.counters */
	uint64_t placed_ns; /* of CLOCK_MONOTONIC */
	struct demotion *demotion; /* demotion.c; NULL: no budget, or it can't be demoted */
	struct lttng_use *lttng; /* lttng_tracer.c; NULL: not its tracer */
	struct count_use *count; /* count_tracer.c; NULL: no count in the target */
	struct call_use *call; /* call_tracer.c; NULL: not its tracer */
	struct sync_use *sync; /* sync_tracer.c; NULL: not its tracer */
	struct tally before; /* subtract: counts of others under its id */
	struct tally past; /* add: its own counts under earlier ids */
	/* its id before this one, some of whose events may not have been read yet: */
	bool has_former;
	uint32_t former_id;
	struct tally former_before;
};

struct tracepoint_list {
	struct tracepoint **items;
	size_t count, room;
};

/* Do its events hold arguments and results? */
bool tracepoint_has_values(const struct tracepoint *tracepoint);
/* Are its exits counted? */
bool tracepoint_knows_exits(const struct tracepoint *tracepoint);
/* The tracer of a placed tracepoint; NULL: not placed. */
const struct tracer *tracepoint_placed_tracer(const struct tracepoint *tracepoint);
/* Is the tracepoint placed with that tracer? Is any tracepoint of the list? */
bool tracepoint_is(const struct tracepoint *tracepoint, enum tracer_kind kind);
bool tracepoint_list_uses(const struct tracepoint_list *list, enum tracer_kind kind);
/* Does any placed tracepoint record into the trace? Into the pool? */
bool tracepoint_list_has_trace(const struct tracepoint_list *list);
bool tracepoint_list_uses_pool(const struct tracepoint_list *list);

#endif
