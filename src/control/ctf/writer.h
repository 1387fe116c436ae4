/*
 * writer.h - a CTF 1.8 trace in a directory.
 *
 * metadata is written first, and replaced by rename when it changes; packets are appended whole, so
 * that the trace is readable at every moment. Stream files are lanes (H22): a stream that begins
 * after another one's last packet goes on in its file.
 */
#ifndef DYNTRACE_WRITER_H
#define DYNTRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"
#include "control/event/event.h"
#include "clock.h"
#include "trace_dir.h"

struct trace_info {
	char hostname[65];
	char process[64];
	int64_t pid;
	const char *command_line; /* borrowed until the writer is destroyed */
	const char *executable;
	int64_t inner_pid; /* in the target's pid namespace; 0: the same */
	const char *version; /* of dyntrace, "1.2.3"; NULL: 0.0.0 */
	char *const *modules; /* what was loaded where (module_describe); borrowed likewise */
	size_t module_count;
};

struct packet {
	uint64_t begin, end; /* clock, full 64 bits */
	uint64_t lost; /* of this stream so far, cumulative */
	uint32_t tid, pid; /* as seen by the controller */
	uint32_t inner_tid, inner_pid; /* in the target's pid namespace */
	const void *events; /* may be none: a packet that only carries `lost` */
	size_t size;
	size_t padding; /* of `size`, bytes behind the last event's last field */
};

struct trace_writer;

/* More was loaded: for the next writer_update. Borrowed. */
void writer_set_modules(struct trace_writer *writer, char *const *modules, size_t count);

/* Makes the directory (it must not exist; its parent must), with metadata in it. */
struct error *writer_create(const char *directory, const struct trace_info *info,
			    struct event_types *types, const struct clock_estimate *clock,
			    struct trace_writer **ret_writer);
/* The same by somebody's means; `dir` is borrowed. */
struct error *writer_create_in(struct trace_dir *dir, const struct trace_info *info,
			       struct event_types *types, const struct clock_estimate *clock,
			       struct trace_writer **ret_writer);

/* Which trace, and which of its controllers' packets: each of several has files of its own, so
 * that it can be told which were whose. */
struct writer_part {
	uint8_t uuid[16];
	uint32_t number; /* from 0 */
};

/* A packet that is in the trace already: its lane's first packet that goes on from there has to
 * know. */
struct packet_seen {
	uint64_t begin, end;
	bool has_events; /* else `end` says nothing of its thread's events */
	uint64_t lost; /* more than the lane's packet before */
	uint32_t inner_tid, inner_pid;
};
typedef void (*writer_seen_fn)(void *context, const struct packet_seen *packet);

/*
 * Goes on with a trace whose controller was killed: finds the ends of its lanes, takes half a
 * packet away, tells `seen` of each packet, and reads what events look like (sizes and places; no
 * names). The directory must be ours alone and have that UUID: whoever named it isn't believed. Its
 * metadata stays as it is.
 */
struct error *writer_reopen(const char *directory, const struct writer_part *part,
			    struct event_types *types, writer_seen_fn seen, void *seen_context,
			    struct trace_writer **ret_writer);
/* The same in a directory that is there; whoever opened it knows whose it is. `dir` is borrowed. */
struct error *writer_reopen_in(struct trace_dir *dir, const struct writer_part *part,
			       struct event_types *types, writer_seen_fn seen, void *seen_context,
			       struct trace_writer **ret_writer);
/*
 * A part behind the one that was reopened. `types` begins with those that writer_reopen has read,
 * which have no names: what the metadata says of them is kept as it is. Both can be written to; the
 * one before may be gone.
 */
struct error *writer_create_after(const struct trace_writer *before, const struct trace_info *info,
				  struct event_types *types, const struct clock_estimate *clock,
				  struct trace_writer **ret_writer);
/* Its files are as long as what is in them; nothing more comes, but it isn't over. */
struct error *writer_complete(struct trace_writer *writer);
/* Lets go of it as it is: somebody else will go on with it. */
struct error *writer_suspend(struct trace_writer *writer);

/* What was added to the types is noted for who goes on with the trace: before anything of it is
 * recorded. */
struct error *writer_note_types(struct trace_writer *writer);

/* Writes the metadata anew: types were added, or the clock is known better. */
struct error *writer_update(struct trace_writer *writer, const struct clock_estimate *clock);

/*
 * Appends a packet to a lane, the stream's own if it has one (`stream` is any number the caller
 * likes; streams end with writer_end_stream). A stream's packets come in order of time; should one
 * begin before the last one's end, it goes to another lane. Each event that `lost` counts is
 * reported once by readers of the trace. On failure (disk full) the file ends with the last whole
 * packet.
 */
struct error *writer_packet(struct trace_writer *writer, uint64_t stream,
			    const struct packet *packet);
void writer_end_stream(struct trace_writer *writer, uint64_t stream);

/* What it is, and its directory's absolute path; "" if that is too long. */
void writer_identify(const struct trace_writer *writer, struct writer_part *ret_part,
		     char *ret_path, size_t size);

uint64_t writer_bytes(const struct trace_writer *writer);
/* Closes the files; flushes nothing to disk by force. */
struct error *writer_close(struct trace_writer *writer);
/* Removes what it made instead: nothing was recorded. */
void writer_discard(struct trace_writer *writer);

#endif
