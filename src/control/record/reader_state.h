/*
 * reader_state.h - what the files of the reader share.
 *
 * reader.c decides which chunks are read when; readout.c reads one.
 */
#ifndef DYNTRACE_READER_STATE_H
#define DYNTRACE_READER_STATE_H

#include "control/base/vec.h"
#include "pool.h"
#include "reader.h"
#include "stream.h"

/* How far a chunk has been read. Belongs to a generation of it. */
struct reader_progress {
	bool begun;
	bool holed; /* something in it was passed over */
	bool parked; /* it has been read, but the hole may still be filled: not to be freed yet */
	uint32_t generation;
	uint32_t done; /* bytes */
	uint32_t hole; /* offset of the first hole */
	uint32_t sequence; /* valid when parked */
	uint64_t found; /* events and holes */
	uint64_t clock; /* of the last event read */
};

/* A chunk that can be read. */
struct reader_entry {
	uint32_t index;
	uint32_t thread;
	uint32_t sequence;
	uint64_t word;
};

struct reader {
	struct reader_options options;
	struct pool pool;
	struct stream_sink sink;
	uint64_t unfinished; /* reader_unfinished */
	struct reader_totals totals;
	struct reader_progress *progress; /* by chunk */
	struct stream *streams; /* by thread record; 0: chunks that name no record */
	VEC(struct reader_entry) entries;
	uint32_t *sizes; /* by event id */
	uint64_t *hits;
	uint8_t *padding;
	size_t type_count;
	uint64_t *buffer; /* one big chunk */
	uint32_t wake_seen;
	struct pool source; /* of a snapshot: the pool that this one is a copy of */
};

enum readout_result {
	READOUT_DONE, /* all there is to read has been read */
	READOUT_AROUND, /* the same, but there were holes */
	READOUT_WAITS, /* an event isn't complete */
};

/* The time, by the clock of the events. */
uint64_t reader_now(const struct reader *reader);
/* Which threads are dead, and which have chunks. */
void reader_find_dead(struct reader *reader);
void reader_find_busy(struct reader *reader);
/* A thread's end: its losses are told. */
struct error *reader_end_thread(struct reader *reader, uint32_t thread);
/* Ends all threads that are dead and have nothing left to read, and frees their records. */
struct error *reader_end_dead(struct reader *reader);

/* Takes over types that were added. */
struct error *readout_learn_types(struct reader *reader);
/* Hits and losses, into the types. */
void readout_tell_types(struct reader *reader);

/* Words of the event, as it was copied. */
size_t readout_words(const struct reader *reader, const uint64_t *event);

/* pause.c: what isn't to be recorded goes from what the last walk_events copied. */
struct walk;
void pause_apply(struct reader *reader, struct stream *stream, struct walk *walk);

struct stream *readout_stream(struct reader *reader, uint32_t thread);
struct reader_progress *readout_progress(struct reader *reader, uint32_t index, uint64_t word);

/* Reads on in a chunk. `force`: go around what isn't complete. */
struct error *readout_chunk(struct reader *reader, const struct reader_entry *entry, bool force,
			    enum readout_result *ret_result);

/* The chunk has been read: counts what it was said to hold. */
void readout_account(struct reader *reader, const struct reader_entry *entry);
/* Gives it back. */
void readout_free(struct reader *reader, uint32_t index, uint64_t word);

#endif
