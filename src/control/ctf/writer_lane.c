/*
 * writer_lane.c - the files of a trace: makes them, keeps few of them open, and chooses one for
 * each packet. writer.c describes their contents.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "writer_hand.h"
#include "writer_state.h"

#define BLOCKS_PACKET (32u << 10) /* shorter packets ask for no blocks */
#define BLOCKS_TRACE (1u << 20) /* nor does a shorter trace */
#define BLOCKS_SHARE 8 /* that part of the trace is asked for ahead, for all threads together */
#define BLOCKS_MORE (4u << 20) /* no more, in one file */

void writer_file_name(uint32_t part, uint64_t number, char name[WRITER_NAME_SIZE])
{
	if (part)
		snprintf(name, WRITER_NAME_SIZE, "stream_%u_%llu", part,
			 (unsigned long long)number);
	else
		snprintf(name, WRITER_NAME_SIZE, "stream_%llu", (unsigned long long)number);
}

void writer_lane_name(const struct trace_writer *writer, size_t index, char name[WRITER_NAME_SIZE])
{
	writer_file_name(writer->part.number, writer->lane_base + index, name);
}

struct error *writer_failed(const struct trace_writer *writer, int number)
{
	static const struct {
		int number;
		const char *hint;
	} hints[] = {
		{ ENOSPC, "make room, or bound traces with --max-size" },
		{ EDQUOT, "make room, or bound traces with --max-size" },
		{ EFBIG, "raise the limit of dyntrace with 'ulimit -f'" },
		{ EIO, "the kernel's log, dmesg, may say more" },
	};

	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (number == hints[i].number)
			return error_new(ERROR_FAILED, "cannot write the trace in '%s': %s (%s)",
					 writer->directory, strerror(number), hints[i].hint);
	}
	return error_errno(number, "cannot write the trace in '%s'", writer->directory);
}

struct error *writer_put(const struct trace_writer *writer, int fd, struct iovec *parts, int count,
			 uint64_t at, const struct writer_aside *aside)
{
	int failed = aside ? writer_hand_put(aside, fd, parts, count, at) :
			     writer_put_all(fd, parts, count, at);

	return failed ? writer_failed(writer, failed) : NULL;
}

struct error *writer_put_bytes(const struct trace_writer *writer, int fd, const void *bytes,
			       size_t size, uint64_t at)
{
	struct iovec part = { (void *)bytes, size };

	return writer_put(writer, fd, &part, 1, at, NULL);
}

/* Only where that was measured to gain something: tmpfs is slower for it. Not for bounded traces,
 * whose space on disk counts, nor for others in pieces: files of older ones keep what they have
 * until the end. */
static bool writer_takes_blocks(struct trace_writer *writer, int fd)
{
	const struct writer_limits *limits = &writer->limits;
	struct statfs st;

	if (!writer->knows_blocks) {
		writer->knows_blocks = true;
		writer->takes_blocks = !limits->max_size && !limits->max_files &&
				       !limits->rotate_ns && !fstatfs(fd, &st) &&
				       st.f_type == EXT4_SUPER_MAGIC;
	}
	return writer->takes_blocks;
}

/* Bytes to ask for behind a packet of `size`. What is asked for counts as written to the look at
 * the free space, which leaves a rest to others: many files may ask at the same time. */
static uint64_t writer_blocks_ahead(const struct trace_writer *writer, uint64_t size)
{
	uint64_t more = writer->bytes / (BLOCKS_SHARE * writer->streams.count);
	uint64_t written = writer->bytes + size;
	uint64_t room = writer->space_until > written ? writer->space_until - written : 0;

	more = more < BLOCKS_MORE ? more : BLOCKS_MORE;
	return more < room ? more : room;
}

void writer_take_blocks(struct trace_writer *writer, struct writer_lane *lane, uint64_t size)
{
	uint64_t need = lane->size + size;

	if (size < BLOCKS_PACKET || writer->bytes < BLOCKS_TRACE || need <= lane->blocks ||
	    !writer_takes_blocks(writer, lane->fd))
		return;
	uint64_t from = lane->blocks > lane->size ? lane->blocks : lane->size;
	uint64_t to = need + writer_blocks_ahead(writer, size);
	if (to > lane->size + lane->filler)
		to = lane->size + lane->filler;
	if (!fallocate(lane->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from))) {
		lane->blocks = to;
		writer->space_until -= to - need;
	} else if (errno != EINTR) {
		lane->blocks = to; /* it may have got some */
		/* a full disk, or a quota: the write itself will tell */
		writer_give_blocks(writer);
	}
}

/* The header of the filler stays. False: nothing was given back. */
static bool writer_give_lane(struct trace_writer *writer, size_t index)
{
	struct writer_lane *lane = &writer->lanes.items[index];
	uint64_t from = writer_whole_pages(lane->size + sizeof(struct metadata_packet));
	uint64_t to = lane->blocks;
	_cleanup_close_ int opened = -1;
	char name[WRITER_NAME_SIZE];

	lane->blocks = 0;
	if (to <= from)
		return false;
	if (lane->fd < 0) {
		writer_lane_name(writer, index, name);
		opened = writer->dir->open(writer->dir, name, false);
	}
	return !fallocate(lane->fd < 0 ? opened : lane->fd,
			  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
			  (off_t)(to - from));
}

bool writer_give_blocks(struct trace_writer *writer)
{
	bool gave = false;

	writer->knows_blocks = true;
	writer->takes_blocks = false;
	for (size_t i = 0; i < writer->lanes.count; i++)
		gave |= writer_give_lane(writer, i);
	return gave;
}

struct metadata_packet writer_filler(const struct trace_writer *writer, uint64_t end,
				     uint64_t discarded, uint64_t sequence, uint64_t size)
{
	assert(size == 0 || size >= sizeof(struct metadata_packet));
	struct metadata_packet head = {
		.magic = METADATA_MAGIC,
		.timestamp_begin = end,
		.timestamp_end = end,
		.content_size = sizeof(head) * 8,
		.packet_size = size * 8,
		.events_discarded = discarded,
		.packet_seq_num = sequence,
	};

	memcpy(head.uuid, writer->part.uuid, sizeof(head.uuid));
	return head;
}

/* Makes a file that appears whole: a header, and after it a hole that takes no space on disk. */
static struct error *writer_make_file(struct trace_writer *writer, struct writer_lane *lane,
				      const char *name, uint64_t begin)
{
	static const char temporary[] = ".stream.new";
	struct metadata_packet head = writer_filler(writer, begin, 0, 0, lane->filler);
	_cleanup_close_ int fd = writer->dir->open(writer->dir, temporary, true);

	if (fd < 0)
		return error_errno(-fd, "cannot open '%s/%s'", writer->directory, name);
	struct error *error = NULL;
	if (ftruncate(fd, (off_t)lane->filler))
		error = writer_failed(writer, errno);
	if (!error)
		error = writer_put_bytes(writer, fd, &head, sizeof(head), 0);
	int renamed = error ? 0 : writer->dir->rename(writer->dir, temporary, name);
	if (renamed)
		error = writer_failed(writer, -renamed);
	if (error)
		writer->dir->remove(writer->dir, temporary);
	else
		lane->fd = take_fd(&fd);
	return error;
}

/* The longer the trace, the longer a new file: so files stay few. */
static uint64_t writer_lane_size(const struct trace_writer *writer, uint64_t need)
{
	uint64_t size = writer->bytes / 4;

	if (size < WRITER_LANE_MIN)
		size = WRITER_LANE_MIN;
	if (size > WRITER_LANE_MAX)
		size = WRITER_LANE_MAX;
	if (size < need)
		size = need;
	return writer_whole_pages(size);
}

/* The lane that ends latest before `begin`, which wastes the least time. */
static size_t writer_best_lane(const struct trace_writer *writer, uint64_t begin, uint64_t need,
			       bool also_taken)
{
	size_t best = WRITER_NO_LANE;

	for (size_t i = 0; i < writer->lanes.count; i++) {
		const struct writer_lane *lane = &writer->lanes.items[i];

		if ((lane->taken && !also_taken) || lane->end > begin || lane->filler < need)
			continue;
		if (best == WRITER_NO_LANE || lane->end > writer->lanes.items[best].end)
			best = i;
	}
	return best;
}

bool writer_is_crowded(const struct trace_writer *writer, uint64_t begin)
{
	return writer->lanes.count >= WRITER_LANES_MANY &&
	       writer_best_lane(writer, begin, 0, true) == WRITER_NO_LANE;
}

struct error *writer_close_one(struct trace_writer *writer)
{
	struct writer_lane *oldest = NULL;

	for (size_t i = 0; i < writer->lanes.count; i++) {
		struct writer_lane *lane = &writer->lanes.items[i];

		if (lane->fd >= 0 && (!oldest || lane->used < oldest->used))
			oldest = lane;
	}
	if (!oldest)
		return NULL;
	assert(writer->open_count);
	int result = close(oldest->fd);
	oldest->fd = -1;
	writer->open_count--;
	return result ? writer_failed(writer, errno) : NULL;
}

struct error *writer_open_lane(struct trace_writer *writer, size_t index)
{
	struct writer_lane *lane = &writer->lanes.items[index];
	char name[WRITER_NAME_SIZE];

	assert(index < writer->lanes.count);
	if (lane->fd >= 0)
		return NULL;
	if (writer->open_count >= WRITER_OPEN_MAX) {
		struct error *error = writer_close_one(writer);

		if (error)
			return error;
	}
	writer_lane_name(writer, index, name);
	int fd = writer->dir->open(writer->dir, name, false);
	if (fd < 0)
		return error_errno(-fd, "cannot open '%s/%s'", writer->directory, name);
	lane->fd = fd;
	writer->open_count++;
	return NULL;
}

static struct error *writer_add_lane(struct trace_writer *writer, uint64_t begin, uint64_t need,
				     size_t *ret_lane)
{
	struct writer_lane lane = { .fd = -1,
				    .filler = writer_lane_size(writer, need),
				    .end = begin };
	char name[WRITER_NAME_SIZE];

	if (!vec_reserve(&writer->lanes, 1))
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error =
		writer->open_count >= WRITER_OPEN_MAX ? writer_close_one(writer) : NULL;
	writer_lane_name(writer, writer->lanes.count, name);
	if (!error)
		error = writer_make_file(writer, &lane, name, begin);
	if (error)
		return error;
	writer->open_count++;
	*ret_lane = writer->lanes.count;
	writer->lanes.items[writer->lanes.count++] = lane;
	return NULL;
}

struct error *writer_choose_lane(struct trace_writer *writer, const struct writer_stream *stream,
				 uint64_t begin, uint64_t need, size_t *ret_lane)
{
	size_t lane = stream->lane;

	if (lane == WRITER_NO_LANE || writer->lanes.items[lane].end > begin ||
	    writer->lanes.items[lane].filler < need)
		lane = writer_best_lane(writer, begin, need, false);
	if (lane == WRITER_NO_LANE && writer->lanes.count >= WRITER_LANES_FEW)
		lane = writer_best_lane(writer, begin, need, true);
	if (lane == WRITER_NO_LANE)
		return writer_add_lane(writer, begin, need, ret_lane);
	assert(writer->lanes.items[lane].end <= begin); /* W2 */
	assert(writer->lanes.items[lane].filler >= need); /* W3 */
	*ret_lane = lane;
	return writer_open_lane(writer, lane);
}
