/*
 * latency.h - how long calls took: a histogram a function, and self time where calls are properly
 * nested.
 *
 * Fed with the events of each thread in order, as the reader writes them. Pure bookkeeping; when
 * memory runs out, what doesn't fit isn't counted.
 */
#ifndef DYNTRACE_LATENCY_H
#define DYNTRACE_LATENCY_H

#include "control/base/vec.h"
#include "control/event/event.h"

/* Durations of a function's calls, as far as their exits were read; ns. */
struct tracepoint_times {
	uint64_t calls;
	uint64_t total, self, max;
	uint64_t p50, p90, p99; /* within 1.6% */
	bool self_known; /* all its calls were properly nested */
};

/* 32 steps between a power of two and the next: within 1.6% of the true value when taken in the
 * middle. */
#define LATENCY_STEPS 32u
#define LATENCY_BUCKETS (60u * LATENCY_STEPS)

struct latency_function {
	uint64_t calls, total, self, max;
	bool unnested; /* an exit of it didn't belong to the innermost open call */
	uint32_t *buckets; /* NULL until the first exit */
};

/* A call that is open. */
struct latency_call {
	uint32_t id; /* of its entry event */
	uint64_t children; /* ns */
};

struct latency_stream {
	uint64_t number;
	VEC(struct latency_call) calls;
};

struct latency {
	const struct event_types *types; /* borrowed */
	struct latency_function *functions; /* by entry id */
	uint8_t *roles; /* by event id */
	uint16_t *durations; /* by exit id: the word of the event that holds it */
	size_t count;
	VEC(struct latency_stream) streams; /* by number */
};

/* For the functions whose entry events are noted by latency_add. */
void latency_init(struct latency *latency, const struct event_types *types);
/* `types` may have grown; false: out of memory. */
bool latency_add(struct latency *latency, uint32_t entry_id);
void latency_free(struct latency *latency);

/* Events of one stream, whole ones, in order. */
void latency_events(struct latency *latency, uint64_t stream, const uint64_t *events, size_t words);

void latency_times(const struct latency *latency, uint32_t entry_id,
		   struct tracepoint_times *ret_times);

/* The bucket of a value and the value in the middle of a bucket. */
uint32_t latency_bucket(uint64_t value);
uint64_t latency_middle(uint32_t bucket);

#endif
