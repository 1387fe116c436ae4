/*
 * reader.h - empty the chunk pool into a trace.
 *
 * Everything in the pool is hostile input: the reader checks bounds, and copies words before it
 * judges them. A target that scribbles over the pool can spoil its own events and nothing else.
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
	uint64_t lost; /* counted by the target as lost for want of room; and `unwritten` */
	uint64_t unwritten; /* read, but no file took them: a full disk, a limit (H39) */
	uint64_t holes; /* reserved but never completed; the trace reports them as lost, too */
	uint64_t outside; /* read, and left out (V5) */
	uint64_t overwritten; /* recorded, and then overwritten by later events (B9) */
	uint64_t bytes;
	uint64_t packets;
	/* events with a clock earlier than the event before: they got that event's clock */
	uint64_t stepped_back;
	bool damaged; /* the target claims more losses than were possible */
	/* (V6) bytes of a buffer that would have held the lost events, too; 0: none was lost for
	 * want of room */
	uint64_t buffer_needed;
};

/* A thread of the target, or of a forked child. */
struct reader_thread {
	uint32_t pid, tid; /* in the pid namespace of its process */
	uint32_t outer_pid, outer_tid; /* in the controller's; 0: unknown */
	uint64_t since; /* clock of its first hit */
	uint32_t program; /* dt_control.program: the target's word */
	uint32_t process; /* dt_state.process: the thread's word */
};

typedef bool (*reader_alive_fn)(void *context, const struct reader_thread *thread);

/* Sets the ids in the controller's pid namespace, which are those in the process's so far. */
typedef void (*reader_outer_fn)(void *context, struct reader_thread *thread);

struct packet; /* ctf/writer.h */
/* Sets packet->process. */
typedef void (*reader_name_fn)(void *context, struct packet *packet);

/* A run of whole events of one thread, as written to the trace. */
struct reader_batch {
	uint64_t stream; /* number of the thread's stream */
	uint32_t pid, tid; /* as seen by the controller */
	const char *process; /* its name */
	uint64_t begin; /* clock of the first event, all 64 bits */
	const uint64_t *events;
	size_t words;
	/* words of each event, in order; NULL: not known */
	const uint16_t *lengths;
	uint64_t lost; /* events of the stream, up to here */
	/* calls that were recorded at their exit: the batch may begin before the one before it */
	bool is_pairs;
};

/* The clock that the target's events have. */
typedef uint64_t (*reader_clock_fn)(void);

/* Called for each batch that was written, in order within a stream. */
typedef void (*reader_observe_fn)(void *context, const struct reader_batch *batch);

/* How far the trace has a thread whose chunks another controller was reading. */
struct reader_resume {
	uint64_t end; /* clock of the thread's last event in the trace; 0: none */
	/* ... of the last that was recorded at a call's exit (R10): a reading writes these first,
	 * and its controller may have been killed before the others */
	uint64_t pairs_end;
	uint64_t told; /* losses that the trace reports */
};

/* The latest few pauses: clocks between which nothing shall be recorded. */
#define READER_PAUSES 16u
struct reader_pauses {
	struct {
		uint64_t begin, end;
	} items[READER_PAUSES];
	size_t count; /* of all pauses ever: the last is at (count - 1) % READER_PAUSES */
};

struct reader_options {
	struct dt_pool *pool; /* mapped read+write */
	uint64_t pool_size; /* of the mapping: the reader touches nothing beyond */
	uint32_t small_count, big_count; /* the controller's own layout */
	struct event_types *types; /* borrowed; their hits and lost are counted */
	/* borrowed; NULL: nothing is written, only `observe` gets the events */
	struct trace_writer *writer;
	reader_alive_fn alive;
	void *alive_context;
	reader_outer_fn outer; /* NULL: only one pid namespace */
	void *outer_context;
	reader_name_fn name; /* NULL: processes have no names */
	void *name_context;
	reader_clock_fn clock; /* NULL: the time stamp counter */
	uint64_t since; /* ns of CLOCK_MONOTONIC: no hit was before; 0: the time of reader_create */
	const struct reader_resume *resume; /* by thread record; NULL: the trace is new */
	/* Keep only events inside of calls of types that enclose; and at most so deep inside of
	 * those, or of any outermost call. */
	bool only_inside, has_depth;
	uint32_t depth; /* UINT32_MAX without has_depth */
	const struct reader_pauses *pauses; /* borrowed; NULL: none */
	uint64_t from; /* events with an earlier clock are left out; 0: none */
	uint64_t until; /* and those with a later clock than this; 0: none */
	reader_observe_fn observe; /* NULL: none */
	void *observe_context;
};

struct error *reader_create(const struct reader_options *options, struct reader **ret_reader);
void reader_destroy(struct reader *reader);
/* Writes to this trace from now on. */
void reader_set_writer(struct reader *reader, struct trace_writer *writer);

/* Sleeps until some chunks are published, the target asks for something, timeout_ms have passed or
 * a signal came. */
void reader_wait(struct reader *reader, unsigned timeout_ms);

/* The value of dt_pool.wake before the last reading, for a caller that sleeps on it by itself. */
uint32_t reader_seen(const struct reader *reader);
/* Events written so far. */
uint64_t reader_events(const struct reader *reader);

/* A clock, for the time since the last call: no event that was incomplete then is earlier, even if
 * later events were read. UINT64_MAX: none was incomplete. */
uint64_t reader_unfinished(struct reader *reader);

/* Writes all published chunks and frees them. *ret_chunks: their number. */
struct error *reader_drain(struct reader *reader, size_t *ret_chunks);

/* Writes the complete events of chunks that are still owned; they stay owned. */
struct error *reader_flush(struct reader *reader);

/* Writes events of the controller's own, of now, for that process: `count` of `words` words each,
 * whose first word is the id. The words are changed. No effect without a trace. */
struct error *reader_write_own(struct reader *reader, uint32_t pid, uint32_t inner_pid,
			       uint64_t *events, size_t words, size_t count);

/* Are so few chunks left that dead threads' chunks should be taken now? */
bool reader_is_short(const struct reader *reader);

/* Takes the chunks of threads that are dead. */
struct error *reader_reap(struct reader *reader);

/* In overwrite mode (B9), instead of the three above: makes chunks and records of dead threads
 * usable again. */
struct error *reader_tidy(struct reader *reader);

/*
 * Writes a copy of the pool to another trace, and leaves the pool as it is. Threads go on recording
 * meanwhile: chunks that they overwrite during the copy are left out whole. `types`: copies, whose
 * hits are counted. Events with a clock before `from` are left out, and those that are recorded
 * during the copy: a thread may have filled up one chunk after it was copied, and have begun
 * another before that one was.
 */
struct error *reader_snapshot(const struct reader *reader, struct trace_writer *writer,
			      struct event_types *types, uint64_t from,
			      struct reader_totals *ret_totals);

/* The metadata doesn't have all kinds of events, and can't get them: a packet with such an event
 * would make the whole trace unreadable. What reader_finish finds from now on is lost. */
void reader_close_trace(struct reader *reader);
/* From now on, events that no file takes are lost, and counted (H39): reader_finish tells why. */
void reader_give_up(struct reader *reader);

/* Reads all chunks, once the probes or the target are gone. Counts incomplete events as holes.
 * Losses that no packet could carry yet get packets of their own. Events that can't be written are
 * lost, and counted: then it fails with the reason, and *ret_totals is true all the same. */
struct error *reader_finish(struct reader *reader, struct reader_totals *ret_totals);

#endif
