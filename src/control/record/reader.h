/*
 * reader.h - empties the chunk pool into a trace.
 *
 * Everything in the pool is hostile input: bounds are checked, words are copied before they are
 * judged, a target that scribbles over it can spoil its own events and nothing else.
 *
 * One thread uses a reader. reader_drain never blocks on the target.
 */
#ifndef DYNTRACE_READER_H
#define DYNTRACE_READER_H

#include <stdbool.h>

#include "shared/layout.h"
#include "control/base/error.h"
#include "control/event/event.h"

struct trace_writer; /* ctf/writer.h */

struct reader;

struct reader_totals {
	uint64_t events; /* written to the trace */
	uint64_t lost; /* counted by the target as lost for want of room */
	uint64_t holes; /* reserved but never completed; the trace has them as lost as well */
	uint64_t overwritten; /* recorded, and then overwritten by later events (B9) */
	uint64_t bytes;
	uint64_t packets;
	/* events whose clock was behind that of the one before: they got its clock */
	uint64_t stepped_back;
};

/* Is that thread of the target (or of a forked child) still there? In the target's own pid
 * namespace. */
typedef bool (*reader_alive_fn)(void *context, uint32_t pid, uint32_t tid);

/* What the controller's own pid namespace calls that thread. Leaves what it doesn't know. */
typedef void (*reader_outer_fn)(void *context, uint32_t *pid, uint32_t *tid);

/* A run of whole events of one thread, as the trace has them. */
struct reader_batch {
	uint64_t stream; /* a number of its own for each thread */
	uint32_t pid, tid; /* as seen by the controller */
	uint64_t begin; /* clock of the first event, all 64 bits */
	const uint64_t *events;
	size_t words;
};

/* The clock that the target's events have. */
typedef uint64_t (*reader_clock_fn)(void);

/* Told of each batch that was written, in order within a stream. */
typedef void (*reader_observe_fn)(void *context, const struct reader_batch *batch);

/* What the trace has already of a thread whose chunks another controller was reading. */
struct reader_resume {
	uint64_t end; /* clock of its last event there; 0: none */
	uint64_t told; /* losses */
};

/* Clocks between which nothing was to be recorded: the latest few times. */
#define READER_PAUSES 16u
struct reader_pauses {
	struct {
		uint64_t begin, end;
	} items[READER_PAUSES];
	size_t count; /* how many there ever were: the last is at (count - 1) % READER_PAUSES */
};

struct reader_options {
	struct dt_pool *pool; /* mapped read+write */
	uint64_t pool_size; /* of the mapping: nothing beyond is touched, whatever the pool says */
	uint32_t small_count, big_count; /* what the controller itself laid out */
	struct event_types *types; /* borrowed; hits and lost are counted here */
	/* borrowed; NULL: nothing is written, who observes sees it all */
	struct trace_writer *writer;
	reader_alive_fn alive;
	void *alive_context;
	reader_outer_fn outer; /* NULL: there is only one pid namespace */
	void *outer_context;
	reader_clock_fn clock; /* NULL: the time stamp counter */
	const struct reader_resume *resume; /* by thread record; NULL: the trace is new */
	const struct reader_pauses *pauses; /* borrowed; NULL: there are none */
	reader_observe_fn observe; /* NULL: nobody wants to know */
	void *observe_context;
};

struct error *reader_create(const struct reader_options *options, struct reader **ret_reader);
void reader_destroy(struct reader *reader);
/* From now on there is a trace. */
void reader_set_writer(struct reader *reader, struct trace_writer *writer);

/* Sleeps until a chunk is published, timeout_ms have passed or a signal came. */
void reader_wait(struct reader *reader, unsigned timeout_ms);

/* The same for who sleeps himself: dt_pool.wake, as it was before all there was has been read. */
uint32_t reader_seen(const struct reader *reader);
/* Events written so far. */
uint64_t reader_events(const struct reader *reader);

/* Since it was asked last: events that were being written are not before this clock, whatever came
 * behind them. */
uint64_t reader_unfinished(struct reader *reader);

/* Writes all published chunks and frees them. *ret_chunks: how many. */
struct error *reader_drain(struct reader *reader, size_t *ret_chunks);

/* Writes what is complete so far in chunks that are still owned; they stay owned. */
struct error *reader_flush(struct reader *reader);

/* Should dead threads' chunks be taken now, because few are left? */
bool reader_is_short(const struct reader *reader);

/* Takes the chunks of threads that are dead. */
struct error *reader_reap(struct reader *reader);

/* In overwrite mode (B9), instead of the three above: chunks of dead threads can be taken again,
 * their records too. */
struct error *reader_tidy(struct reader *reader);

/*
 * Writes all that the pool holds to another trace, and leaves it there. Threads go on recording
 * meanwhile: what they overwrite while it is copied is left out as whole chunks. `types`: copies,
 * whose hits are counted.
 */
struct error *reader_snapshot(const struct reader *reader, struct trace_writer *writer,
			      struct event_types *types, struct reader_totals *ret_totals);

/* The end: the probes are gone or the target is. Takes everything; what is not complete is counted
 * as holes. Losses that no packet could carry yet get packets of their own. */
struct error *reader_finish(struct reader *reader, struct reader_totals *ret_totals);

#endif
