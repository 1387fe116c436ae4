/*
 * stream.h - one thread's way into the trace: its packets in order of time, its losses.
 *
 * Each thread record has one struct stream. Its number in the trace is new whenever the record goes
 * to another thread, or time goes back.
 */
#ifndef DYNTRACE_STREAM_H
#define DYNTRACE_STREAM_H

#include "control/ctf/writer.h"
#include "losses.h"
#include "reader.h"

/* A chunk that begins before the last end by no more than this was written on another CPU; by more,
 * the clock was set. */
#define STREAM_SKEW (1ULL << 23)

struct stream {
	bool open;
	bool dead; /* its thread has ended */
	bool busy; /* its thread has chunks */
	uint64_t number; /* for the writer */
	uint64_t pairs; /* likewise, for events that are older than others before them; 0: none */
	uint64_t pairs_end; /* of their latest packet */
	uint64_t pairs_until; /* up to this clock: written or lost, and will be read again */
	uint32_t pid, tid; /* as the record said when the stream was opened */
	uint32_t outer_pid, outer_tid;
	uint32_t process; /* dt_state.process */
	uint64_t end; /* of its last packet */
	uint64_t lost; /* counted by its thread, as far as known and believed */
	uint64_t holes;
	uint64_t unwritten; /* events that were read, and that no file took */
	uint64_t carried; /* losses that former numbers of this stream have reported */
	uint64_t told; /* losses that this number has reported */
	uint64_t read; /* events */
	uint64_t claimed; /* events in its chunks, as their owner counted */
	uint64_t skip; /* events up to this clock are in the trace already */
	uint64_t skip_pairs; /* ... of those that are recorded at a call's exit */
	uint32_t sequence; /* of the chunk that comes next */
	uint32_t waiting_for; /* the sequence number missing at the last scan */
	bool waits;
	struct nesting *nesting; /* nesting.c; owned; NULL: none */
};

struct stream_sink {
	struct trace_writer *writer;
	uint64_t next_number;
	struct reader_totals *totals;
	struct losses losses; /* of all streams */
	reader_name_fn name; /* as in reader_options */
	void *name_context;
	bool is_closed; /* nothing may be written any more: reader_close_trace */
	/* The trace is being completed: what can't be written is lost, and counted (H39). */
	bool gives_up;
	struct error *failure; /* the first that was given up for; NULL: none; owned */
};

void stream_open(struct stream *stream, struct stream_sink *sink, const struct dt_thread *record,
		 const struct reader_options *options);

/* The clock from which the stream goes on: `begin`, or the last end if that is only a little later.
 * If it is far later, the stream starts anew, under another number. */
uint64_t stream_seek(struct stream *stream, struct stream_sink *sink, uint64_t begin);

/* The thread counts this many losses. */
void stream_note_lost(struct stream *stream, struct stream_sink *sink, uint64_t lost);

/* Writes a packet; `packet` has begin, end, events, size and padding. */
struct error *stream_write(struct stream *stream, struct stream_sink *sink, struct packet *packet);

/* Writes a packet of pairs (pairs.c), which may begin before the packet before it ends. */
struct error *stream_write_pairs(struct stream *stream, struct stream_sink *sink,
				 struct packet *packet);

/* The packet couldn't be written. True: its events are given up, and the error is the sink's. */
bool stream_gives_up(struct stream_sink *sink, struct error *error);

/* Reports the rest of the losses, and ends the stream of a thread that is gone. */
struct error *stream_finish(struct stream *stream, struct stream_sink *sink, uint64_t now);

#endif
