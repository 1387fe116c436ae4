/*
 * writer_state.h - the parts that writer.c, writer_lane.c and reopen.c share.
 */
#ifndef DYNTRACE_WRITER_STATE_H
#define DYNTRACE_WRITER_STATE_H

#include <stdbool.h>
#include <sys/uio.h>

#include "control/base/strbuf.h"
#include "control/base/vec.h"
#include "metadata.h"
#include "writer.h"

#define WRITER_LANES_FEW 256
#define WRITER_LANES_MANY 512 /* no more for events that came late */
#define WRITER_OPEN_MAX 128
#define WRITER_PARTS_MAX 65536
#define WRITER_NO_LANE SIZE_MAX
#define WRITER_PAGE 4096u
#define WRITER_LANE_MIN (256u << 10)
#define WRITER_LANE_MAX (1u << 30)

struct writer_lane {
	int fd; /* -1: closed for now */
	uint64_t size; /* W1 */
	uint64_t filler; /* bytes of the empty packet after it; 0: none */
	uint64_t blocks; /* it has blocks up to there (writer_take_blocks); 0: not asked for */
	uint64_t end; /* W2 */
	uint64_t discarded;
	uint64_t sequence;
	uint64_t used; /* trace_writer.turn of its last packet */
	bool taken; /* belongs to a stream that hasn't ended */
};

struct writer_stream {
	uint64_t number;
	uint64_t lost; /* packet.lost of its last packet */
	size_t lane; /* of its last packet */
};

/* Files of an older stretch of time (writer_rotate.h). */
struct writer_piece {
	uint32_t part;
	uint64_t first, end; /* numbers of its files */
	uint64_t bytes; /* space on disk */
	uint64_t events, payload; /* their number and bytes; 0: a dead controller's, not counted */
	uint64_t *sizes; /* of its files, without fillers; NULL: a dead controller's; owned */
};

struct trace_writer {
	const char *directory; /* path, for messages */
	struct trace_dir *dir;
	bool own_dir; /* `dir` belongs to the writer */
	struct trace_info info;
	struct event_types *types;
	struct clock_estimate clock;
	struct writer_part part;
	int notes; /* file of reopen.c; -1: not open */
	size_t noted; /* number of types noted there */
	char *inherited; /* declarations of the events of earlier parts; NULL: none */
	VEC(struct writer_lane) lanes; /* of the current piece */
	uint64_t lane_base; /* number of the first one's file */
	VEC(struct writer_piece) pieces; /* older ones, the oldest first */
	uint64_t piece_events, piece_payload; /* in the current piece */
	uint64_t piece_end; /* ns of CLOCK_MONOTONIC */
	struct writer_limits limits;
	struct writer_removed removed;
	const struct trace_writer *after; /* the next part, whose files count, too; NULL: none */
	size_t metadata_size;
	/* The next look at the free space: at that many `bytes`, or at that time. */
	uint64_t space_until, space_look;
	uint64_t space_left; /* at the last look */
	bool is_full; /* no more events: too little space is left */
	bool knows_blocks, takes_blocks; /* does it ask for blocks ahead? writer_take_blocks */
	VEC(struct writer_stream) streams; /* by number */
	size_t open_count;
	uint64_t turn; /* counts packets */
	/* The process of the first packet, or of the trace's environment; pid 0: none yet. */
	uint32_t pid;
	char process[WRITER_PROCESS_SIZE];
	bool is_mixed; /* packets are of several processes, or of several names */
	uint64_t bytes; /* of all packets */
};

/* writer.c */
/* A packet is of this process. */
void writer_note_process(struct trace_writer *writer, uint32_t pid, const char *process);
struct error *writer_write_all(int fd, const char *text, size_t length);
struct error *writer_replace_metadata(const struct trace_writer *writer, const struct strbuf *text);
void writer_free(struct trace_writer *writer);

/* writer_lane.c */
#define WRITER_NAME_SIZE 48
/* Name of a file, by part and number. */
void writer_file_name(uint32_t part, uint64_t number, char name[WRITER_NAME_SIZE]);
/* Name of a lane's file. */
void writer_lane_name(const struct trace_writer *writer, size_t index, char name[WRITER_NAME_SIZE]);
/* Writes all parts, or fails. `aside` NULL: in this thread. */
struct error *writer_put(const struct trace_writer *writer, int fd, struct iovec *parts, int count,
			 uint64_t at, const struct writer_aside *aside);
/* Says that a file can't be written, for errno, and what to do where a user can do something. */
struct error *writer_failed(const struct trace_writer *writer, int number);
struct error *writer_put_bytes(const struct trace_writer *writer, int fd, const void *bytes,
			       size_t size, uint64_t at);
/* Asks for the blocks of a long packet of `size` bytes, and of some more, in an open lane: a file
 * system that finds blocks for each page by itself takes twice as long. */
void writer_take_blocks(struct trace_writer *writer, struct writer_lane *lane, uint64_t size);
/* All files give back the blocks that they don't use yet, and ask for none any more. False: there
 * were none. */
bool writer_give_blocks(struct trace_writer *writer);
static inline uint64_t writer_whole_pages(uint64_t bytes)
{
	return (bytes + WRITER_PAGE - 1) / WRITER_PAGE * WRITER_PAGE;
}

/* The header of an empty packet of `size` bytes at the time `end`. */
struct metadata_packet writer_filler(const struct trace_writer *writer, uint64_t end,
				     uint64_t discarded, uint64_t sequence, uint64_t size);
/* Gives an open lane with room for `need` bytes from the time `begin` on: the stream's own, another
 * one, or a new one. */
struct error *writer_choose_lane(struct trace_writer *writer, const struct writer_stream *stream,
				 uint64_t begin, uint64_t need, size_t *ret_lane);
struct error *writer_open_lane(struct trace_writer *writer, size_t index);
/* Closes the lane used longest ago: a process has few descriptors, and a trace may have many
 * lanes. */
struct error *writer_close_one(struct trace_writer *writer);

/* reopen.c: notes the layout of events, for the controller that goes on with the trace if this one
 * is killed. */
struct error *reopen_note_types(struct trace_writer *writer);
void reopen_forget_types(const struct trace_writer *writer);

#endif
