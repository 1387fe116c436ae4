/*
 * latency.h - durations of calls: one distribution per function, total and self time.
 *
 * Gets the events of each thread in order, as the reader writes them, and counts as `report` does
 * when it reads the trace (rules O1 to O3 of cli/report/report.h): the summary and the report have
 * the same numbers. Pure bookkeeping; without memory some calls aren't counted.
 */
#ifndef DYNTRACE_LATENCY_H
#define DYNTRACE_LATENCY_H

#include "control/base/vec.h"
#include "control/event/event.h"
#include "distribution.h"

/* Durations of the calls of a function whose exits were read; ns. */
struct tracepoint_times {
	uint64_t calls;
	uint64_t total; /* with at least one call on the thread's stack: (O1) of cli/report */
	uint64_t durations; /* of all calls, also inside calls of the same function */
	uint64_t self, max;
	uint64_t p50, p90, p99; /* within 1.6% */
	bool self_known; /* of some calls at least */
	uint64_t cut; /* calls without a duration, because of lost events (O2) */
};

struct latency_function {
	struct distribution durations;
	uint64_t total, self;
	uint64_t cut, partial;
	/* of the batch that is being read: */
	uint32_t batch; /* its number; another one: the rest means nothing */
	uint32_t top; /* innermost open call of the function, an index; LATENCY_NONE: none */
};

#define LATENCY_NONE UINT32_MAX

/* What the table must know of an event, in one word: thousands of kinds take turns. */
struct latency_kind {
	uint16_t duration; /* of an exit: index of the event's word that holds the duration */
	uint8_t role; /* enum role */
};

/* An open call. */
struct latency_call {
	uint32_t id; /* of its entry event */
	uint32_t below; /* the next call of the same function below it; LATENCY_NONE: none */
	uint64_t children; /* ns of the calls inside it */
	uint64_t inside; /* ns of calls of the same function inside it (O1) */
};

struct latency_stream {
	uint64_t number;
	uint64_t lost; /* events, so far */
	uint64_t cut_before; /* clock: calls that began earlier were cut by a loss; 0: none */
	VEC(struct latency_call) calls;
	VEC(uint32_t) cut; /* entry ids of calls that a loss cut, and whose exits may come yet */
};

/* Whole events of one stream, in order. */
struct latency_batch {
	uint64_t stream;
	const uint64_t *events;
	size_t words;
	const uint16_t *lengths; /* reader_batch.lengths */
	uint64_t begin; /* clock of the first event */
	uint64_t lost; /* events of the stream that were lost up to here */
	uint64_t frequency; /* of the clock, in Hz */
	bool is_pairs; /* reader_batch.is_pairs: calls around or between them may be left out */
};

struct latency {
	const struct event_types *types; /* borrowed */
	struct latency_function *functions; /* by entry id */
	struct latency_kind *kinds; /* by event id */
	size_t count;
	uint32_t batch; /* how many were read */
	VEC(struct latency_stream) streams; /* by number */
};

void latency_init(struct latency *latency, const struct event_types *types);
/* Counts the function with that entry event; its exit event has the next id. `types` may have
 * grown. False: out of memory. */
bool latency_add(struct latency *latency, uint32_t entry_id);
void latency_free(struct latency *latency);

void latency_events(struct latency *latency, const struct latency_batch *batch);

/* The durations of its calls; NULL: no function has that entry event. */
const struct distribution *latency_durations(const struct latency *latency, uint32_t entry_id);
/* *ret_times stays as it is if no function has that entry event. */
void latency_times(const struct latency *latency, uint32_t entry_id,
		   struct tracepoint_times *ret_times);

#endif
