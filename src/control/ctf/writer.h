/*
 * writer.h - a CTF 1.8 trace in a directory.
 *
 * The writer makes the metadata first, and replaces it by rename when it changes. It appends whole
 * packets, so that the trace is readable at every moment. Stream files are lanes (H22): a stream
 * that begins after another stream's last packet goes on in its file.
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
	char boot_id[40]; /* of the kernel's start, as journald has it; empty: unknown */
	/* ns: the time of an event less this is CLOCK_MONOTONIC; with boot_id */
	int64_t monotonic_offset;
	char process[64];
	int64_t pid;
	const char *command_line; /* borrowed until the writer is closed */
	const char *executable;
	int64_t inner_pid; /* in the target's pid namespace; 0: the same */
	const char *version; /* of dyntrace, "1.2.3"; NULL: 0.0.0 */
	char *const *modules; /* one line per loaded file (module_describe); borrowed likewise */
	size_t module_count;
};

struct writer_aside; /* writer_hand.h */

#define WRITER_PROCESS_SIZE 16 /* as the kernel's */

struct packet {
	uint64_t begin, end; /* clock, full 64 bits */
	uint64_t lost; /* events that this stream has lost so far */
	uint32_t tid, pid; /* as seen by the controller */
	uint32_t inner_tid, inner_pid; /* in the target's pid namespace */
	char process[WRITER_PROCESS_SIZE]; /* its name; a string, and zeroes behind it */
	const void *events; /* may be none: the packet then only carries `lost` */
	size_t size;
	size_t padding; /* bytes of `size` after the last event's last field */
	uint64_t count; /* of events; for writer_get_removed alone */
	const struct writer_aside *aside; /* a second thread writes the events; NULL: this one */
};

struct trace_writer;

/*
 * Bounds of a trace. Its files are cut into pieces, each of which is the files of one stretch of
 * time; the oldest piece is removed first. Zero: no such bound.
 */
struct writer_limits {
	uint64_t max_size; /* space on disk */
	uint32_t max_files; /* pieces, with the current one: 2 or more */
	uint64_t rotate_ns; /* a piece ends after this time */
};

/* Pieces that the limits have removed, and their events and bytes. */
struct writer_removed {
	uint64_t pieces, events, bytes;
};

/* For a trace without a packet yet. */
void writer_set_limits(struct trace_writer *writer, const struct writer_limits *limits);
/* Is its size bounded? Then a packet should be small, since the oldest make room for it. */
bool writer_is_bounded(const struct trace_writer *writer);
/* Ends a piece whose time is over, though no packet comes. */
struct error *writer_tick(struct trace_writer *writer);
void writer_get_removed(const struct trace_writer *writer, struct writer_removed *ret_removed);

/* Replaces the list of modules, for the next writer_update. Borrowed. */
void writer_set_modules(struct trace_writer *writer, char *const *modules, size_t count);

/* Makes the directory (it must not exist; its parent must), with metadata in it. */
struct error *writer_create(const char *directory, const struct trace_info *info,
			    struct event_types *types, const struct clock_estimate *clock,
			    struct trace_writer **ret_writer);
/* Makes metadata in `dir`, which is borrowed. */
struct error *writer_create_in(struct trace_dir *dir, const struct trace_info *info,
			       struct event_types *types, const struct clock_estimate *clock,
			       struct trace_writer **ret_writer);

/* A trace, and the part of it that one controller writes. Each controller has files of its own, so
 * that the next one knows whose packets it reads. */
struct writer_part {
	uint8_t uuid[16];
	uint32_t number; /* from 0 */
};

/* A packet that the trace has already, for the controller that goes on with the trace. */
struct packet_seen {
	uint64_t begin, end;
	bool has_events; /* false: `end` says nothing about its thread's events */
	bool is_pairs; /* of calls that were recorded at their exit (R10): they have own packets */
	uint64_t lost; /* events lost since the lane's packet before */
	uint32_t inner_tid, inner_pid;
};
typedef void (*writer_seen_fn)(void *context, const struct packet_seen *packet);

/*
 * Goes on with a trace whose controller was killed: finds the ends of its lanes, cuts off half a
 * packet, calls `seen` for each packet, and reads the layout of events (sizes and offsets; no
 * names). The directory must belong to this user alone and have that UUID: its path comes from the
 * target's memory, which isn't trusted. Its metadata stays as it is.
 */
struct error *writer_reopen(const char *directory, const struct writer_part *part,
			    struct event_types *types, writer_seen_fn seen, void *seen_context,
			    struct trace_writer **ret_writer);
/* Reopens an open directory, whose owner the caller has checked. `dir` is borrowed. */
struct error *writer_reopen_in(struct trace_dir *dir, const struct writer_part *part,
			       struct event_types *types, writer_seen_fn seen, void *seen_context,
			       struct trace_writer **ret_writer);
/*
 * Begins a part after the reopened one. `types` begins with the types that writer_reopen has read,
 * which have no names: their declarations in the metadata are kept. Both writers can be used;
 * `before` may be closed first.
 */
struct error *writer_create_after(const struct trace_writer *before, const struct trace_info *info,
				  struct event_types *types, const struct clock_estimate *clock,
				  struct trace_writer **ret_writer);
/*
 * Bounds a reopened part, which gets the packets of the dead controller's buffers, together with
 * `after`, the part behind it (NULL: none yet). The latter writes nothing until writer_note_before,
 * which makes it go on with what the limits have left of `before`.
 */
struct error *writer_limit_before(struct trace_writer *before, const struct trace_writer *after,
				  const struct writer_limits *limits);
struct error *writer_note_before(struct trace_writer *writer, struct trace_writer *before);
/* Cuts the files to the length of their packets. No packet follows, but the writer stays open. */
struct error *writer_complete(struct trace_writer *writer);
/* Closes the writer and leaves the trace as it is: another controller will go on with it. */
struct error *writer_suspend(struct trace_writer *writer);

/* Notes new types for a controller that takes over, before any event of them is recorded. */
struct error *writer_note_types(struct trace_writer *writer);

/* Writes the metadata anew, after types were added or the clock's estimate has changed. */
struct error *writer_update(struct trace_writer *writer, const struct clock_estimate *clock);

/*
 * Appends a packet to a lane, the stream's own if it has one (`stream` is any number that the
 * caller chooses; streams end with writer_end_stream). A stream's packets come in order of time; a
 * packet that begins before the last one's end goes to another lane. Readers of the trace report
 * each event that `lost` counts once. On failure (disk full) the file ends with the last whole
 * packet. ERROR_FULL: too little space is left, and no packet with events is taken any more.
 */
struct error *writer_packet(struct trace_writer *writer, uint64_t stream,
			    const struct packet *packet);
void writer_end_stream(struct trace_writer *writer, uint64_t stream);
/* Would a packet that begins there need one more lane, where there are many already? */
bool writer_is_crowded(const struct trace_writer *writer, uint64_t begin);

/* Gives the trace and part, and the directory's absolute path; "" if that is too long. */
void writer_identify(const struct trace_writer *writer, struct writer_part *ret_part,
		     char *ret_path, size_t size);

/* Closes the files, without fsync. */
struct error *writer_close(struct trace_writer *writer);
/* Removes the trace instead, with what probes have recorded that were placed before others
 * failed. */
void writer_discard(struct trace_writer *writer);

#endif
