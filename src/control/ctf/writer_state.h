/*
 * writer_state.h - what the files of the writer share.
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
#define WRITER_OPEN_MAX 128
#define WRITER_PARTS_MAX 65536
#define WRITER_NO_LANE SIZE_MAX
#define WRITER_PAGE 4096u
#define WRITER_LANE_MIN (256u << 10)
#define WRITER_LANE_MAX (1u << 30)

struct writer_lane {
	int fd; /* -1: closed for now */
	uint64_t size; /* W1 */
	uint64_t filler; /* bytes of the empty packet behind it; 0: there is none */
	uint64_t end; /* W2 */
	uint64_t discarded;
	uint64_t sequence;
	uint64_t used; /* turn of its last packet */
	bool taken; /* by a stream that goes on */
};

struct writer_stream {
	uint64_t number;
	uint64_t lost; /* as its last packet said */
	size_t lane; /* of its last packet */
};

struct trace_writer {
	const char *directory; /* path, for messages */
	struct trace_dir *dir;
	bool own_dir; /* it is the writer's */
	struct trace_info info;
	struct event_types *types;
	struct clock_estimate clock;
	struct writer_part part;
	int notes; /* reopen.c; -1: not open */
	size_t noted; /* of the types */
	char *inherited; /* the declarations of the events of earlier parts; NULL: none */
	VEC(struct writer_lane) lanes;
	VEC(struct writer_stream) streams; /* by number */
	size_t open_count;
	uint64_t turn;
	uint64_t bytes;
};

/* writer.c */
struct error *writer_write_all(int fd, const char *text, size_t length);
struct error *writer_replace_metadata(const struct trace_writer *writer, const struct strbuf *text);
void writer_free(struct trace_writer *writer);

/* writer_lane.c */
#define WRITER_NAME_SIZE 48
/* Of a lane's file. */
void writer_lane_name(const struct trace_writer *writer, size_t index, char name[WRITER_NAME_SIZE]);
/* Writes all, or says why not. */
struct error *writer_put(const struct trace_writer *writer, int fd, struct iovec *parts, int count,
			 uint64_t at);
struct error *writer_put_bytes(const struct trace_writer *writer, int fd, const void *bytes,
			       size_t size, uint64_t at);
/* An empty packet behind `end`. */
struct metadata_packet writer_filler(const struct trace_writer *writer, uint64_t end,
				     uint64_t discarded, uint64_t sequence, uint64_t size);
/* An open lane with room for `need` bytes from the time `begin` on: the stream's own, another's, a
 * new one. */
struct error *writer_choose_lane(struct trace_writer *writer, const struct writer_stream *stream,
				 uint64_t begin, uint64_t need, size_t *ret_lane);
struct error *writer_open_lane(struct trace_writer *writer, size_t index);
/* A process has few descriptors, and there may be many lanes: the one used longest ago is closed. */
struct error *writer_close_one(struct trace_writer *writer);

/* reopen.c: notes what events look like, for who goes on with the trace when this controller is
 * killed. */
struct error *reopen_note_types(struct trace_writer *writer);
void reopen_forget_types(const struct trace_writer *writer);

#endif
