/*
 * readahead.h - copy the next chunks while a second thread writes a packet (V8).
 *
 * Part of the reader: reader.c tells how much there is to read, readout.c offers packets and takes
 * the copies.
 */
#ifndef DYNTRACE_READAHEAD_H
#define DYNTRACE_READAHEAD_H

#include "control/base/vec.h"
#include "control/ctf/writer_hand.h"
#include "walk.h"

/* Bytes of the longest packet: the file system takes long writes at a lower price, and to wake a
 * second thread for less costs too much. */
#define READAHEAD_ROOM (512u << 10)
#define READAHEAD_LENGTHS (READAHEAD_ROOM / 8) /* an event has one word at least */

struct reader;

/* A readable chunk. */
struct reader_entry {
	uint32_t index;
	uint32_t thread;
	uint32_t sequence;
	uint64_t word;
};

struct readahead {
	struct writer_aside aside; /* `hand` NULL: there is no second thread */
	bool is_refused; /* none can be had, or none would help */
	bool is_behind; /* the reader can't keep up */
	bool is_long; /* reader->buffer has READAHEAD_ROOM bytes */
	/* READAHEAD_ROOM bytes, as reader->buffer has then; NULL: not needed yet */
	uint64_t *buffer;
	uint16_t *lengths; /* as reader->lengths */
	VEC(struct reader_entry) unfreed; /* chunks whose packet has been written */
	/* the chunks behind the packet that is being written, and its thread and end */
	const struct reader_entry *next;
	uint32_t thread;
	uint64_t end;
	/* the copy, if there is one: of `copied` and of `joined` chunks behind it */
	const struct reader_entry *copied; /* NULL: none */
	size_t joined;
	uint64_t lost; /* as its descriptor said */
	struct walk before, walk; /* before the copy, and after it */
};

/* A scan has found what there is to read now. */
void readahead_judge(struct reader *reader);
/* The chunk's packet has been written: frees it, now or while the next packet is being written. */
void readahead_free_chunk(struct reader *reader, const struct reader_entry *entry);
/* For a packet of `size` bytes that ends at `end`: what is done while it is being written. `next`:
 * the chunk behind its chunks. NULL: this thread writes it. */
const struct writer_aside *readahead_aside(struct reader *reader, const struct reader_entry *next,
					   uint64_t end, size_t size);
/* Is this walk's first chunk copied already? Then the walk is as after the copy, whose events are
 * in reader->buffer. *ret_joined: the chunks behind it that were copied, too. */
bool readahead_take(struct reader *reader, const struct reader_entry *entry, uint64_t lost,
		    struct walk *walk, size_t *ret_joined);
/* All chunks have been read that the scan has found. */
void readahead_end(struct reader *reader);
void readahead_free(struct readahead *ahead);

#endif
