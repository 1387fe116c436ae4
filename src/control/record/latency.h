/*
 * latency.h - durations of calls: one histogram per function, and self time where calls are
 * properly nested.
 *
 * Gets the events of each thread in order, as the reader writes them. Pure bookkeeping; without
 * memory some calls aren't counted.
 */
#ifndef DYNTRACE_LATENCY_H
#define DYNTRACE_LATENCY_H

#include "control/base/vec.h"
#include "control/event/event.h"

/* Durations of the calls of a function whose exits were read; ns. */
struct tracepoint_times {
	uint64_t calls;
	uint64_t total; /* with at least one call on the thread's stack: (O1) of cli/report */
	uint64_t durations; /* of all calls, also inside calls of the same function */
	uint64_t self, max;
	uint64_t p50, p90, p99; /* within 1.6% */
	bool self_known; /* all its calls were properly nested */
};

/* histogram.h: 32 steps per power of two, within 1.6% of the true value. */
#define LATENCY_BITS 5u
#define LATENCY_BUCKETS (60u << LATENCY_BITS)

struct latency_function {
	uint64_t calls, total, durations, self, max;
	bool unnested; /* an exit didn't belong to the innermost open call */
	uint32_t *buckets; /* NULL until the first exit */
};

/* An open call. */
struct latency_call {
	uint32_t id; /* of its entry event */
	uint64_t children; /* ns of the calls inside it */
	uint64_t within; /* latency_stream.within at its entry */
};

struct latency_stream {
	uint64_t number;
	VEC(struct latency_call) calls;
	/* by entry id: ns with a call of the function on the stack. An exit sets it to what it was
	 * at the call's entry plus the call's duration: calls inside are in that, and calls that
	 * never returned make nothing wrong. */
	uint64_t *within;
	size_t within_room;
};

struct latency {
	const struct event_types *types; /* borrowed */
	struct latency_function *functions; /* by entry id */
	uint8_t *roles; /* by event id */
	uint16_t *durations; /* by exit id: index of the event's word that holds the duration */
	size_t count;
	VEC(struct latency_stream) streams; /* by number */
};

void latency_init(struct latency *latency, const struct event_types *types);
/* Counts the function with that entry event; its exit event has the next id. `types` may have
 * grown. False: out of memory. */
bool latency_add(struct latency *latency, uint32_t entry_id);
void latency_free(struct latency *latency);

/* Takes whole events of one stream, in order. */
void latency_events(struct latency *latency, uint64_t stream, const uint64_t *events, size_t words);

/* *ret_times stays as it is if no function has that entry event. */
void latency_times(const struct latency *latency, uint32_t entry_id,
		   struct tracepoint_times *ret_times);

#endif
