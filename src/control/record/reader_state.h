/*
 * reader_state.h - the parts that reader.c, readout.c, pause.c and flight.c share.
 *
 * reader.c decides when which chunks are read; readout.c reads one.
 */
#ifndef DYNTRACE_READER_STATE_H
#define DYNTRACE_READER_STATE_H

#include "control/base/vec.h"
#include "pool.h"
#include "readahead.h"
#include "reader.h"
#include "stream.h"

/* How far one generation of a chunk has been read. */
struct reader_progress {
	bool begun;
	bool holed; /* an incomplete event was skipped */
	bool parked; /* read, but a thread may still fill the hole: don't free the chunk yet */
	uint32_t generation;
	uint32_t done; /* bytes */
	uint32_t hole; /* offset of the first hole */
	uint32_t sequence; /* valid when parked */
	uint64_t found; /* events and holes */
	uint64_t clock; /* of the last event read */
};

/* A call that may never return (open_calls.h). */
struct open_call {
	const void *owner; /* who noted it; only compared */
	uint32_t id; /* of its entry */
	uint64_t begin;
	struct dt_thread record; /* as it was then */
	uint64_t *event; /* owned; room for the header, then the fields; NULL: no memory */
	size_t words;
	uint32_t next; /* of the same head, plus 1; 0: none */
};

/* Calls of one owner and kind that there was no memory to note. */
struct open_lack {
	const void *owner;
	uint32_t id; /* of their entries */
	uint64_t count; /* 0: unused */
};

#define OPEN_CALLS_HEADS 4096u /* a power of two */
#define OPEN_CALLS_LACKS 32u

struct open_calls {
	VEC(struct open_call) calls;
	uint32_t *heads; /* by `begin`: a call plus 1; 0: none. OPEN_CALLS_HEADS, or NULL */
	struct open_lack lacks[OPEN_CALLS_LACKS]; /* the last one takes what has no room */
};

struct reader {
	struct reader_options options;
	struct pool pool;
	struct stream_sink sink;
	uint64_t unfinished; /* reader_unfinished */
	struct reader_totals totals;
	struct reader_progress *progress; /* by chunk */
	struct stream *streams; /* by thread record; 0: for chunks without a valid record */
	VEC(struct reader_entry) entries;
	uint32_t *sizes; /* by event id */
	uint64_t *hits;
	uint64_t *unwritten; /* by id: events that no file took */
	uint64_t *tallied; /* by id: losses that the target counts, as far as believed */
	struct losses losses; /* of all ids */
	uint32_t lossy; /* threads that lost events, of those that have ended */
	uint8_t *padding;
	size_t type_count;
	uint64_t *buffer; /* `room` bytes, or more */
	uint16_t *lengths; /* walk.lengths of the events in `buffer`; READAHEAD_LENGTHS */
	size_t room; /* of a packet: one big chunk, or more */
	struct readahead ahead;
	uint32_t wake_seen;
	bool has_pairs; /* a type is one */
	struct pairs *pairs; /* pairs.c; NULL: none was read */
	struct open_calls open_calls;
	uint64_t own_stream; /* number of the stream of own_events.c; 0: none yet */
	struct pool source; /* of a snapshot: the original of `pool` */
};

struct nesting;
struct pairs;

enum readout_result {
	READOUT_DONE, /* the whole chunk has been read */
	READOUT_AROUND, /* the same, around holes */
	READOUT_WAITS, /* an event isn't complete */
};

/* The current time, by the clock of the events. */
uint64_t reader_now(const struct reader *reader);
/* Marks the streams of dead threads. */
void reader_find_dead(struct reader *reader);
/* Ends all dead threads that have no chunk left, and frees their records. */
struct error *reader_end_dead(struct reader *reader);

/* Learns the sizes of types that were added. */
struct error *readout_learn_types(struct reader *reader);
/* Stores hits and losses in the types. */
void readout_tell_types(struct reader *reader);

/* Words of a copied event. */
size_t readout_words(const struct reader *reader, const uint64_t *event);

/* pause.c: removes events of pauses from the copy that the last walk_events made. */
struct walk;
void pause_apply(struct reader *reader, struct stream *stream, struct walk *walk);

/* nesting.c: removes events that are outside, likewise. nesting_forget: the copy couldn't be
 * written, and will be read again; no call is known any more. */
void nesting_apply(struct reader *reader, struct stream *stream, struct walk *walk);
void nesting_forget(struct stream *stream);
void nesting_free(struct nesting *nesting);

/* Moves a copied event to `to`, where the copy goes on with it; counts it anew. */
void readout_keep(const struct reader *reader, struct walk *walk, uint64_t *to, const uint64_t *at,
		  size_t words, uint64_t clock);

/* pairs.c: takes the pairs out of the copy that the last walk_events made, and writes them.
 * `lengths`: of the copy's events; NULL: not known. */
struct error *pairs_write(struct reader *reader, struct stream *stream, struct walk *walk,
			  const uint16_t *lengths);
/* pairs.c: writes the entry of a call that never returned, or counts it as lost. */
struct error *pairs_write_entry(struct reader *reader, struct stream *stream,
				const struct open_call *call);
/* pairs.c: counts entries of calls as lost that there was no memory to note. */
struct error *pairs_lose_entries(struct reader *reader, uint32_t id, uint64_t count);
void pairs_free(struct pairs *pairs);
/* open_calls.c: a pair was read. */
void open_calls_returned(struct reader *reader, const struct stream *stream, uint32_t id,
			 uint64_t begin);
/* open_calls.c: writes the entries of calls that never returned. */
struct error *open_calls_write(struct reader *reader);

struct stream *readout_stream(struct reader *reader, uint32_t thread);
struct reader_progress *readout_progress(struct reader *reader, uint32_t index, uint64_t word);

/* Reads on in this chunk of reader->entries; whole ones of its thread that follow it there may be
 * read with it (V7). `force`: skip incomplete events. *ret_result is that of this one. */
struct error *readout_chunk(struct reader *reader, const struct reader_entry *entry, bool force,
			    enum readout_result *ret_result);

/* For readahead.c: parts of readout_chunk. Is the chunk published, and nothing of it read? */
bool readout_is_untouched(const struct reader *reader, const struct reader_entry *entry);
/* Where the reading of a chunk goes on, from that clock, into the walk's `to` and `lengths`. */
void readout_begin(struct reader *reader, const struct reader_entry *entry,
		   const struct dt_chunk *desc, uint64_t clock, struct walk *walk);
/* Copies the events; whole chunks behind it, too. Returns the number of these. */
size_t readout_copy(const struct reader *reader, const struct reader_entry *entry, uint64_t lost,
		    const uint64_t *buffer, struct walk *walk);

/* Adds the events that a chunk's owner claims to be in it, once the chunk has been read. */
void readout_account(struct reader *reader, const struct reader_entry *entry);
/* Gives the chunk back to the pool. */
void readout_free(struct reader *reader, uint32_t index, uint64_t word);

#endif
