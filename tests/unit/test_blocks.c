/*
 * Blocks of a trace's files that the writer asks for before it writes there: where that helps, how
 * many, and what happens if there are none.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "control/ctf/metadata.h"
#include "control/ctf/writer_state.h"
#include "rig.h"

#define WORDS 7 /* of an event: babeltrace2 takes long for as many bytes of bare ones */
#define EVENTS 1170 /* of a packet: as long as a big chunk */
#define FEW 70 /* of a short packet */
#define PACKET (sizeof(struct metadata_packet) + EVENTS * WORDS * 8)
#define PACKETS 160
#define FIRST (1u << 20) /* a shorter trace asks for none */
#define THREADS 16
#define DISK (64u << 20)
#define RESERVE (DISK / 16) /* of which the writer takes nothing */

static long file_system; /* type that fstatfs tells */
static int failure; /* errno of fallocate; 0: it succeeds */
static unsigned asked; /* calls of fallocate */
static uint64_t blocks; /* bytes that it gave */
static ino_t file; /* of the last call, and the end of its blocks */
static off_t end;
static uint64_t written;
static uint64_t disk_left; /* at the beginning; 0: nobody asks */
static uint64_t clock_now;

/* The ones that the writer calls. */
int fstatfs(int fd, struct statfs *ret_stat)
{
	(void)fd;
	memset(ret_stat, 0, sizeof(*ret_stat));
	ret_stat->f_type = file_system;
	return 0;
}

static uint64_t left(void)
{
	uint64_t used = blocks > written ? blocks : written;

	return disk_left > used ? disk_left - used : 0;
}

int fstatvfs(int fd, struct statvfs *ret_stat)
{
	(void)fd;
	memset(ret_stat, 0, sizeof(*ret_stat));
	if (!disk_left) /* a file system that doesn't tell */
		return 0;
	ret_stat->f_frsize = 1;
	ret_stat->f_blocks = DISK;
	ret_stat->f_bavail = left();
	return 0;
}

/* Files have the blocks that they were given. */
int fstat(int fd, struct stat *ret_stat)
{
	if (syscall(SYS_fstat, fd, ret_stat))
		return -1;
	if (ret_stat->st_ino == file && end / 512 > ret_stat->st_blocks)
		ret_stat->st_blocks = end / 512;
	return 0;
}

int fallocate(int fd, int mode, off_t at, off_t size)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_true(size > 0 && at + size <= st.st_size); /* inside of the filler */
	if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) {
		char bytes[64] = { 0 };

		assert_true(pread(fd, bytes, sizeof(bytes), at) >= 0 && !bytes[0]); /* unused */
		blocks -= (uint64_t)size;
		return 0;
	}
	assert_int_equal(mode, FALLOC_FL_KEEP_SIZE);
	if (file == st.st_ino)
		assert_true(at >= end); /* nothing twice */
	file = st.st_ino;
	asked++;
	if (failure) {
		errno = failure;
		return -1;
	}
	end = at + size;
	blocks += (uint64_t)size;
	return 0;
}

static void make(struct rig_trace *trace)
{
	asked = 0;
	blocks = 0;
	failure = 0;
	end = 0;
	disk_left = 0;
	written = 0;
	clock_now = 1000;
	file_system = EXT4_SUPER_MAGIC;
	rig_open_trace(trace);
}

/* Writes a packet of that many events. */
static struct error *put_one(struct rig_trace *trace, uint64_t stream, size_t count)
{
	static uint64_t events[EVENTS * WORDS];
	struct packet packet = { .begin = clock_now + 1,
				 .end = clock_now + count,
				 .events = events,
				 .size = count * WORDS * 8,
				 .count = count };

	assert_true(count <= EVENTS);
	for (size_t i = 0; i < count; i++)
		events[i * WORDS] = ++clock_now << 24 | RIG_SIX;
	return writer_packet(trace->writer, stream, &packet);
}

static void put(struct rig_trace *trace, unsigned packets, size_t count)
{
	for (unsigned n = 0; n < packets; n++)
		RIG_OK(put_one(trace, 1, count));
}

/* All events are in the trace. */
static void finish(struct rig_trace *trace, uint64_t count)
{
	RIG_OK(writer_close(trace->writer));
	assert_int_equal(rig_judge(trace, NULL).events, count);
	rig_remove(trace);
}

/* Few questions, for all that is written, and not for much more. */
static void test_ahead(void **unused)
{
	struct rig_trace trace;

	make(&trace);
	put(&trace, FIRST / PACKET, EVENTS);
	assert_int_equal(asked, 0);
	put(&trace, PACKETS, EVENTS);
	assert_in_range(asked, 1, PACKETS / 4);
	assert_in_range(blocks, (uint64_t)(PACKETS - 1) * PACKET,
			(uint64_t)PACKETS * PACKET * 5 / 4);
	finish(&trace, (uint64_t)(FIRST / PACKET + PACKETS) * EVENTS);
}

/* Packets of a slow program ask for nothing. */
static void test_short_packets(void **unused)
{
	struct rig_trace trace;

	make(&trace);
	put(&trace, 2 * FIRST / PACKET, EVENTS);
	unsigned before = asked;
	uint64_t had = blocks;
	put(&trace, PACKETS, FEW);
	assert_int_equal(asked, before);
	assert_int_equal(blocks, had);
	finish(&trace, (uint64_t)(2 * FIRST / PACKET) * EVENTS + PACKETS * FEW);
}

static void test_other_file_system(void **unused)
{
	struct rig_trace trace;

	make(&trace);
	file_system = TMPFS_MAGIC;
	put(&trace, PACKETS, EVENTS);
	assert_int_equal(asked, 0);
	finish(&trace, (uint64_t)PACKETS * EVENTS);
}

/* The space that such a trace takes is bounded. */
static void test_bounded(void **unused)
{
	struct rig_trace trace;

	make(&trace);
	writer_set_limits(trace.writer, &(struct writer_limits){ .max_size = 64u << 20 });
	put(&trace, PACKETS, EVENTS);
	assert_int_equal(asked, 0);
	finish(&trace, (uint64_t)PACKETS * EVENTS);
}

/* So is that of a trace which is cut into pieces: their files aren't written any more, and keep
 * what they have until the end. */
static void test_pieces(void **unused)
{
	struct rig_trace trace;

	make(&trace);
	writer_set_limits(trace.writer, &(struct writer_limits){ .rotate_ns = 1 });
	for (unsigned i = 0; i < PACKETS / 8; i++) {
		put(&trace, 1, EVENTS);
		RIG_OK(writer_tick(trace.writer));
	}
	assert_int_equal(asked, 0);
	finish(&trace, (uint64_t)(PACKETS / 8) * EVENTS);
}

/* The disk has a rest that the writer leaves to others. It keeps to that, also when the files of
 * many threads need more blocks at the same time; and it writes until only that rest is left, with
 * no block that isn't used. */
static void test_reserve(void **unused)
{
	for (uint64_t most = DISK / 2; most <= DISK; most += DISK / 8) {
		uint64_t count = 0;
		struct rig_trace trace;
		struct error *error;

		make(&trace);
		disk_left = most;
		while (!(error = put_one(&trace, count % THREADS, EVENTS))) {
			written = ++count * PACKET;
			assert_true(left() >= RESERVE);
		}
		assert_int_equal(error_kind(error), ERROR_FULL);
		error_free(error);
		assert_true(left() < RESERVE + 2 * PACKET);
		assert_true(blocks <= count * PACKET);
		RIG_OK(writer_close(trace.writer));
		rig_remove(&trace);
	}
}

/* No blocks are to be had: the writer asks once, and the writes tell whether the disk is full. An
 * interrupted call is made again. */
static void test_refused(void **unused)
{
	static const int failures[] = { ENOSPC, EOPNOTSUPP, EDQUOT };
	struct rig_trace trace;

	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		make(&trace);
		failure = failures[i];
		put(&trace, PACKETS / 4, EVENTS);
		assert_int_equal(asked, 1);
		finish(&trace, (uint64_t)(PACKETS / 4) * EVENTS);
	}
	make(&trace);
	failure = EINTR;
	put(&trace, FIRST / PACKET + 3, EVENTS);
	assert_true(asked > 1);
	failure = 0;
	put(&trace, PACKETS / 4, EVENTS);
	assert_true(blocks >= (uint64_t)(PACKETS / 4 - 1) * PACKET);
	finish(&trace, (uint64_t)(FIRST / PACKET + 3 + PACKETS / 4) * EVENTS);
}

/* A file gives back the blocks that it doesn't use: another one may lack them. */
static void test_given_back(void **unused)
{
	struct rig_trace trace;
	uint64_t count = 0;

	make(&trace);
	for (; blocks <= count * PACKET && count < PACKETS; count++)
		put(&trace, 1, EVENTS);
	assert_true(blocks > count * PACKET);
	failure = EDQUOT;
	RIG_OK(put_one(&trace, 2, EVENTS));
	count++;
	assert_true(blocks <= count * PACKET);
	put(&trace, PACKETS / 8, EVENTS); /* in the first one, too */
	finish(&trace, (count + PACKETS / 8) * EVENTS);
}

static void ignore_packet(void *unused, const struct packet_seen *packet)
{
	(void)unused;
	(void)packet;
}

/* Nor does a killed controller's file keep what the events lack that are saved later. */
static void test_killed(void **unused)
{
	struct rig_trace trace;
	struct writer_part part;
	char path[PATH_MAX];
	uint64_t count = 0;

	make(&trace);
	for (; blocks <= (count + 16) * PACKET && count < PACKETS; count++)
		put(&trace, 1, EVENTS);
	assert_true(blocks > count * PACKET);
	writer_identify(trace.writer, &part, path, sizeof(path));
	writer_free(trace.writer);
	disk_left = blocks + RESERVE;
	event_types_free(&trace.types);
	RIG_OK(writer_reopen(path, &part, &trace.types, ignore_packet, NULL, &trace.writer));
	RIG_OK(put_one(&trace, 1, EVENTS));
	finish(&trace, (count + 1) * EVENTS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_short_packets),
		cmocka_unit_test(test_other_file_system),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
