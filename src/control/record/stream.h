/*
 * stream.h - one thread's way into the trace: its packets in order of time, its losses.
 *
 * There is one for each thread record. Its number in the trace is new whenever the record is given
 * to another thread, or time goes back.
 */
#ifndef DYNTRACE_STREAM_H
#define DYNTRACE_STREAM_H

#include "control/ctf/writer.h"
#include "reader.h"

/* A begin that lies before the last end by no more than this is another CPU's clock; beyond, a
 * clock that was set. */
#define STREAM_SKEW (1ULL << 23)

struct stream {
	bool open;
	bool dead; /* its thread is */
	bool busy; /* there are chunks of it */
	uint64_t number; /* for the writer */
	uint32_t pid, tid; /* as the record said when the stream was opened */
	uint32_t outer_pid, outer_tid;
	uint64_t end; /* of its last packet */
	uint64_t lost; /* counted by its thread, as far as known */
	uint64_t holes;
	uint64_t carried; /* losses that a former number of this stream has told */
	uint64_t told; /* losses that this number has told */
	uint64_t read; /* events */
	uint64_t claimed; /* events that its chunks were said to hold */
	uint64_t skip; /* events up to this clock are in the trace already */
	uint32_t sequence; /* of the chunk that comes next */
	uint32_t waiting_for; /* the sequence number it waited for last time */
	bool waits;
};

struct stream_sink {
	struct trace_writer *writer;
	uint64_t next_number;
	struct reader_totals *totals;
};

void stream_open(struct stream *stream, struct stream_sink *sink, const struct dt_thread *record,
		 const struct reader_options *options);

/* A clock value from where the stream is to go on: `begin`, or the last end when that is only a
 * little later. Far later: the stream starts anew, under another number. */
uint64_t stream_seek(struct stream *stream, struct stream_sink *sink, uint64_t begin);

/* Writes a packet; `packet` has begin, end, events, size and padding. */
struct error *stream_write(struct stream *stream, struct stream_sink *sink, struct packet *packet);

/* The thread is gone: tells what is left of its losses, and ends. */
struct error *stream_finish(struct stream *stream, struct stream_sink *sink, uint64_t now);

#endif
