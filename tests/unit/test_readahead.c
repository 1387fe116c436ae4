/*
 * The reader with a second thread, which writes packets while the reader copies the next chunks
 * (V8, W6): on pools written by hand, with writes that are looked at.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "control/ctf/metadata.h"
#include "control/ctf/writer_hand.h"
#include "control/record/resume.h"
#include "rig.h"

#define SMALL 4
#define FEW 12
#define MANY 64 /* so many that packets may be larger than a chunk */
#define EVENTS 2700 /* of two fields, in a big chunk */
#define START ((3ULL << 40) + 12345)

static uint64_t *words;
static struct dt_chunk *descs;
static uint64_t now;
static uint32_t big; /* chunks */

/* ---- writes --------------------------------------------------------------------------------- */

static pid_t reader_tid;
static bool offered; /* a packet is about to be offered to the second thread */
static unsigned by_second; /* writes */
static bool in_second; /* the second thread is in a write */
static bool flipped_early; /* a header was written meanwhile (W6) */
static int fail_second; /* errno of the second thread's next write; 0: it succeeds */
static int fail_all; /* errno of all writes of events */
static unsigned kill_at; /* the process is killed in that write of the second thread; 0: not */

/* A thread that doesn't wait has the time to go wrong. */
static void give_way(void)
{
	for (int i = 0; i < 1000 && !__atomic_load_n(&flipped_early, __ATOMIC_SEQ_CST); i++)
		sched_yield();
}

static ssize_t write_by_second(int fd, const struct iovec *parts, int count, off_t at)
{
	int number = fail_second;

	__atomic_store_n(&in_second, true, __ATOMIC_SEQ_CST);
	unsigned number_of_write = __atomic_add_fetch(&by_second, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&offered, false, __ATOMIC_SEQ_CST);
	give_way();
	if (number_of_write == kill_at) {
		const struct iovec half = { parts->iov_base, parts->iov_len / 2 };

		syscall(SYS_pwritev, fd, &half, 1, at, 0);
		raise(SIGKILL);
	}
	fail_second = 0;
	ssize_t n = number ? -1 : syscall(SYS_pwritev, fd, parts, count, at, 0);
	__atomic_store_n(&in_second, false, __ATOMIC_SEQ_CST);
	if (number)
		errno = number;
	return n;
}

/* The one that the writer calls. */
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
	if (fail_all && parts->iov_len > sizeof(struct metadata_packet)) {
		__atomic_store_n(&offered, false, __ATOMIC_SEQ_CST);
		errno = fail_all;
		return -1;
	}
	if (gettid() != reader_tid)
		return write_by_second(fd, parts, count, at);
	if (__atomic_load_n(&in_second, __ATOMIC_SEQ_CST))
		__atomic_store_n(&flipped_early, true, __ATOMIC_SEQ_CST);
	return syscall(SYS_pwritev, fd, parts, count, at, 0);
}

/* reader_name_fn: called before each packet. */
static void note_packet(void *context, struct packet *packet)
{
	(void)context;
	__atomic_store_n(&offered, packet->aside != NULL, __ATOMIC_SEQ_CST);
}

/* Called while a packet is offered, too. The second thread shall take the first; later ones aren't
 * offered if it was kept from going on. */
static uint64_t read_clock(void)
{
	while (__atomic_load_n(&offered, __ATOMIC_SEQ_CST) &&
	       !__atomic_load_n(&by_second, __ATOMIC_SEQ_CST))
		sched_yield();
	return now + (1ULL << 39);
}

/* ---- pools ---------------------------------------------------------------------------------- */

static uint64_t observed; /* events, of two fields */
static void (*observe_more)(void);
static const struct event_type *texts; /* events of this type come, too; NULL: none */
static unsigned unknown_lengths; /* batches */
static struct reader_pauses pauses;

/* Measures each event, and compares that with the length that the batch tells. */
static void observe_texts(const struct reader_batch *batch)
{
	const uint16_t *length = batch->lengths;

	unknown_lengths += !length;
	for (size_t at = 0, count = 0; at < batch->words; at += count, observed++) {
		bool is_text = (batch->events[at] & DT_EVENT_ID_MASK) == RIG_WORD;

		count = is_text ? (event_measure(texts, batch->events + at, 64) + 7) / 8 : 3;
		assert_true(count);
		if (length)
			assert_int_equal(*length++, count);
	}
}

static void observe(void *context, const struct reader_batch *batch)
{
	(void)context;
	assert_false(in_second);
	if (texts) {
		observe_texts(batch);
		return;
	}
	for (size_t i = 0; i < batch->words; i += 3)
		assert_int_equal(batch->events[i] & DT_EVENT_ID_MASK, RIG_TWO);
	observed += batch->words / 3;
	if (observe_more)
		observe_more();
}

static void open_reader(struct rig_trace *trace, const struct reader_resume *resume)
{
	struct reader_options options = rig_reader_options(trace);

	options.alive = NULL;
	options.name = note_packet;
	options.clock = read_clock;
	options.resume = resume;
	options.observe = observe;
	options.pauses = &pauses;
	RIG_OK(reader_create(&options, &trace->reader));
}

static void set_up(struct rig_trace *trace, uint32_t big_count)
{
	if (!writer_hand_helps()) {
		print_message("one processor: there is no second thread\n");
		skip();
	}
	big = big_count;
	reader_tid = gettid();
	offered = in_second = flipped_early = false;
	by_second = kill_at = 0;
	fail_second = fail_all = 0;
	observed = 0;
	observe_more = NULL;
	texts = NULL;
	unknown_lengths = 0;
	pauses = (struct reader_pauses){ 0 };
	rig_up(SMALL, big, 0);
	rig_open_trace(trace);
	open_reader(trace, NULL);
	words = (uint64_t *)((char *)rig_pool + dt_words_offset());
	descs = (struct dt_chunk *)((char *)rig_pool + dt_descs_offset(SMALL + big));
	now = START;
	for (uint32_t i = 1; i <= 2; i++)
		rig_pool->threads[i] =
			(struct dt_thread){ .claim = 2, .pid = 70, .tid = 70 + i, .chunks = 99 };
}

static void tear_down(struct rig_trace *trace)
{
	rig_remove(trace);
	rig_down();
}

static uint64_t *chunk_at(uint32_t index)
{
	return (uint64_t *)((char *)rig_pool +
			    dt_chunk_offset(rig_control->chunks_offset, SMALL, index));
}

/* A published chunk of that thread; the fields are its sequence number, and the event's. */
static void fill(uint32_t index, uint32_t thread, uint32_t sequence, uint32_t count)
{
	uint64_t *at = chunk_at(index);

	descs[index] = (struct dt_chunk){ .begin = now, .sequence = sequence, .used = count * 24,
					  .count = count };
	for (uint32_t i = 0; i < count; i++, at += 3) {
		at[0] = ++now << 24 | RIG_TWO;
		at[1] = sequence;
		at[2] = i;
	}
	descs[index].end = ++now;
	words[index] = DT_CHUNK_WORD(DT_CHUNK_GENERATION(words[index]) + 1, thread,
				     DT_CHUNK_PUBLISHED);
	index < SMALL ? rig_pool->small_free-- : rig_pool->big_free--;
}

/* As `fill`, of a string of 0 to 36 bytes and two fields by turns. Returns the number of events. */
static uint32_t fill_texts(uint32_t index, uint32_t thread, uint32_t sequence)
{
	uint64_t *at = chunk_at(index), *end = at + DT_CHUNK_BIG / 8 - 8;
	uint32_t count = 0;

	fill(index, thread, sequence, 0);
	for (; at < end; count++) {
		uint64_t length = count % 37;

		at[0] = ++now << 24 | (count % 2 ? RIG_WORD : RIG_TWO);
		if (count % 2) {
			at[1] = 16 + length + 1;
			memset(at + 2, 'a', length);
		}
		at += count % 2 ? (16 + length + 1 + 7) / 8 : 3;
	}
	descs[index].used = (uint32_t)(at - chunk_at(index)) * 8;
	descs[index].count = count;
	descs[index].end = ++now;
	return count;
}

/* All big chunks, those of two threads by turns: more than a quarter of the pool. */
static uint64_t fill_big(uint32_t sequence)
{
	for (uint32_t i = 0; i < big; i++)
		fill(SMALL + i, 1 + i % 2, sequence + i / 2, EVENTS);
	return big * EVENTS;
}

static uint64_t hits(const struct rig_trace *trace)
{
	return trace->types.items[RIG_TWO].hits;
}

static size_t drain(struct rig_trace *trace)
{
	size_t chunks = 0;

	RIG_OK(reader_drain(trace->reader, &chunks));
	return chunks;
}

static void expect_failure(struct rig_trace *trace, const char *why)
{
	size_t chunks;
	struct error *error = reader_drain(trace->reader, &chunks);

	assert_non_null(error);
	assert_non_null(strstr(error_text(error), why));
	error_free(error);
}

/* In each thread the events come as they were recorded, each once. */
static void expect_order(const struct rig_trace *trace, uint64_t count)
{
	_cleanup_free_ char *text = rig_babeltrace(trace, "--fields=all --clock-cycles");
	uint64_t next[3] = { 0 }, found = 0;
	char *rest = text;

	for (char *line; (line = strsep(&rest, "\n")) && *line; found++) {
		unsigned long long tid = 0, sequence = 0, number = 0;
		const char *who = strstr(line, "vtid = "), *what = strstr(line, "arg0 = ");

		assert_true(who && sscanf(who, "vtid = %llu", &tid) == 1 && tid >= 71 && tid <= 72);
		assert_true(what && sscanf(what, "arg0 = %llu, arg1 = %llu", &sequence, &number) ==
					    2);
		assert_int_equal(sequence * EVENTS + number, next[tid - 70]++);
	}
	assert_int_equal(found, count);
}

static bool all_free(void)
{
	for (uint32_t i = 0; i < SMALL + big; i++) {
		if (DT_CHUNK_STATE(words[i]) != DT_CHUNK_FREE || *chunk_at(i))
			return false;
	}
	return true;
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Packets of two threads, some by the second thread: each after the one before it (W6), counted
 * and observed once. */
static void test_order(void **unused)
{
	struct rig_trace trace;

	set_up(&trace, FEW);
	uint64_t count = fill_big(0);
	assert_int_equal(drain(&trace), big);
	assert_true(by_second >= 1);
	assert_false(flipped_early);
	assert_true(all_free());
	assert_int_equal(hits(&trace), count);
	assert_int_equal(observed, count);
	count += fill_big(big / 2);
	assert_int_equal(drain(&trace), big);
	assert_int_equal(hits(&trace), count);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, count);
	assert_int_equal(trace.totals.packets, 2 * big);
	assert_false(flipped_early);
	expect_order(&trace, count);
	tear_down(&trace);
}

/* While the reader is behind, a packet holds several chunks. All of them are read again if it
 * fails. */
static void test_large_packets(void **unused)
{
	struct rig_trace trace;

	set_up(&trace, MANY);
	uint64_t count = fill_big(0);
	fail_second = EIO;
	expect_failure(&trace, "Input/output error");
	assert_int_equal(hits(&trace), 0);
	assert_int_equal(rig_pool->big_free, 0);
	assert_int_equal(drain(&trace), MANY);
	assert_true(all_free());
	assert_int_equal(hits(&trace), count);
	rig_finish(&trace);
	assert_int_equal(trace.totals.packets, MANY / 2);
	assert_int_equal(trace.totals.events, count);
	expect_order(&trace, count);
	tear_down(&trace);
}

/* A reader that keeps up needs no second thread, and makes none. */
static void test_few_chunks(void **unused)
{
	struct rig_trace trace;

	set_up(&trace, FEW);
	fill(SMALL, 1, 0, EVENTS);
	fill(SMALL + 1, 1, 1, EVENTS);
	assert_int_equal(drain(&trace), 2);
	assert_int_equal(by_second, 0);
	rig_finish(&trace);
	expect_order(&trace, 2 * EVENTS);
	tear_down(&trace);
}

/* A reader that keeps up writes what it finds by few packets, too. */
static void test_some_chunks(void **unused)
{
	struct rig_trace trace;

	set_up(&trace, MANY);
	for (uint32_t i = 0; i < MANY / 8; i++)
		fill(SMALL + i, 1, i, EVENTS);
	assert_int_equal(drain(&trace), MANY / 8);
	assert_int_equal(by_second, 0);
	rig_finish(&trace);
	assert_int_equal(trace.totals.packets, MANY / 8 / 2);
	expect_order(&trace, MANY / 8 * EVENTS);
	tear_down(&trace);
}

/* (V3, V8) The second thread's write fails: of its packet, and of the one that was copied
 * meanwhile, nothing is counted or freed. Both are read again. */
static void test_failed_write(void **unused)
{
	struct rig_trace trace;

	set_up(&trace, FEW);
	uint64_t count = fill_big(0);
	fail_second = EIO;
	expect_failure(&trace, "Input/output error");
	assert_int_equal(by_second, 1);
	assert_int_equal(hits(&trace), 0);
	assert_int_equal(observed, 0);
	assert_int_equal(rig_pool->big_free, 0);
	assert_int_equal(drain(&trace), big);
	assert_int_equal(hits(&trace), count);
	assert_int_equal(observed, count);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, count);
	assert_int_equal(trace.totals.lost + trace.totals.holes, 0);
	expect_order(&trace, count);
	tear_down(&trace);
}

/* (H39) The disk is full in the second thread, and stays so: all that isn't in the trace is lost,
 * and counted. */
static void test_disk_full(void **unused)
{
	struct rig_trace trace;

	set_up(&trace, FEW);
	uint64_t count = fill_big(0);
	assert_int_equal(drain(&trace), big);
	uint64_t more = fill_big(big / 2);
	fail_all = ENOSPC;
	expect_failure(&trace, "No space left");
	assert_int_equal(hits(&trace), count);
	struct error *error = reader_finish(trace.reader, &trace.totals);
	assert_non_null(strstr(error_text(error), "No space left"));
	error_free(error);
	assert_int_equal(trace.totals.events, count);
	assert_int_equal(trace.totals.lost, more);
	assert_int_equal(trace.totals.unwritten, more);
	assert_int_equal(hits(&trace), count);
	assert_int_equal(trace.types.items[RIG_TWO].lost, more);
	reader_destroy(trace.reader);
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(rig_judge(&trace, NULL).events, count);
	tear_down(&trace);
}

/* The target changes its mind about a chunk that has been copied. */
static void shorten_next(void)
{
	descs[SMALL + 2].used = 24;
	descs[SMALL + 2].count = 1;
	observe_more = NULL;
}

/* (V8) A copy that is no longer of what would be read now is dropped. */
static void test_stale_copy(void **unused)
{
	struct rig_trace trace;

	set_up(&trace, FEW);
	uint64_t count = fill_big(0);
	observe_more = shorten_next; /* after the first packet, of chunk SMALL */
	assert_int_equal(drain(&trace), big);
	assert_true(by_second >= 1);
	count -= EVENTS - 1;
	assert_int_equal(hits(&trace), count);
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, count);
	assert_int_equal(rig_judge(&trace, NULL).events, count);
	tear_down(&trace);
}

/* A trace that is cut into pieces: the last events are there, and the others are counted. */
static void test_rotation(void **unused)
{
	struct writer_limits limits = { .max_size = 1 << 20 };
	struct writer_removed removed;
	struct rig_trace trace;
	uint64_t count = 0;

	set_up(&trace, FEW);
	writer_set_limits(trace.writer, &limits);
	for (uint32_t i = 0; i < 4; i++) {
		count += fill_big(i * (big / 2));
		assert_int_equal(drain(&trace), big);
	}
	assert_true(by_second >= 1);
	RIG_OK(reader_finish(trace.reader, &trace.totals));
	writer_get_removed(trace.writer, &removed);
	reader_destroy(trace.reader);
	RIG_OK(writer_close(trace.writer));
	assert_int_equal(trace.totals.events, count);
	assert_true(removed.events > 0);
	assert_int_equal(rig_judge(&trace, NULL).events, count - removed.events);
	tear_down(&trace);
}

static unsigned kill_at_observed;

static void kill_when_observed(void)
{
	if (!--kill_at_observed)
		raise(SIGKILL);
}

/* The next controller goes on with the trace and the pool of a dead one. */
static void take_over(struct rig_trace *trace, const struct writer_part *part)
{
	static struct reader_resume threads[DT_THREADS_MAX];
	struct resume resume = { .pool = rig_pool, .threads = threads };
	struct event_types layout = { 0 };

	memset(threads, 0, sizeof(threads));
	RIG_OK(writer_reopen(trace->directory, part, &layout, resume_see, &resume,
			     &trace->writer));
	open_reader(trace, threads);
	rig_finish(trace);
	event_types_free(&layout);
}

/* Killed in a write of the second thread, or before a packet's chunks are freed: the next
 * controller finds each event once, in the trace or in the pool. */
static void check_killed(unsigned write, unsigned packet)
{
	struct writer_part part;
	struct rig_trace trace;
	char path[256];
	int status;

	set_up(&trace, FEW);
	uint64_t count = fill_big(0);
	reader_destroy(trace.reader); /* the process that is killed has its own */
	writer_identify(trace.writer, &part, path, sizeof(path));
	pid_t child = fork();
	if (!child) {
		reader_tid = gettid();
		kill_at = write;
		kill_at_observed = packet;
		observe_more = packet ? kill_when_observed : NULL;
		open_reader(&trace, NULL);
		drain(&trace);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_true(rig_pool->big_free < (int32_t)big);
	RIG_OK(writer_suspend(trace.writer));
	rig_judge(&trace, NULL); /* it can be read */
	take_over(&trace, &part);
	assert_int_equal(trace.totals.lost + trace.totals.holes, 0);
	expect_order(&trace, count);
	tear_down(&trace);
}

static void test_killed_in_a_write(void **unused)
{
	check_killed(1, 0);
}

static void test_killed_before_chunks_are_freed(void **unused)
{
	for (unsigned packet = 1; packet <= 5; packet += 2)
		check_killed(0, packet);
}

/* ---- the second thread by itself ------------------------------------------------------------ */

static bool has_run, waits_for_second;

static void meanwhile(void *context)
{
	(void)context;
	has_run = true;
	while (waits_for_second && !__atomic_load_n(&by_second, __ATOMIC_SEQ_CST))
		sched_yield();
}

/* The second thread gets no signal. It writes all parts, where they belong. */
static void test_hand(void **unused)
{
	struct writer_hand *hand = writer_hand_create();
	struct writer_aside aside = { .hand = hand, .meanwhile = meanwhile };
	char first[] = "abc", second[] = "defg", found[8] = "";
	struct iovec parts[2] = { { first, 3 }, { second, 4 } };
	_cleanup_close_ int fd = memfd_create("hand", MFD_CLOEXEC);
	unsigned long long blocked = 0;
	char path[64], line[256];

	assert_non_null(hand);
	reader_tid = gettid();
	by_second = 0;
	kill_at = 0;
	fail_second = fail_all = 0;
	waits_for_second = true;
	assert_int_equal(writer_hand_put(&aside, fd, parts, 2, 1), 0);
	assert_true(has_run && by_second == 1);
	assert_int_equal(pread(fd, found, 8, 0), 8);
	assert_memory_equal(found, "\0abcdefg", 8);
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *entry; (entry = readdir(tasks));) {
		if (atoi(entry->d_name) <= 0 || atoi(entry->d_name) == reader_tid)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%d/status", atoi(entry->d_name));
		FILE *status = fopen(path, "re");
		while (fgets(line, sizeof(line), status))
			sscanf(line, "SigBlk: %llx", &blocked);
		fclose(status);
	}
	closedir(tasks);
	assert_true(blocked & 1ull << (SIGINT - 1) && blocked & 1ull << (SIGXFSZ - 1) &&
		    blocked & 1ull << (SIGCHLD - 1));
	writer_hand_free(hand);
}

/* An observer is told the length of each event, whether its chunk was read alone, with others or
 * ahead; not after events were left out. */
static void test_lengths(void **unused)
{
	struct event_field text = { .type = FIELD_STRING };
	struct rig_trace trace;
	uint64_t count = 0;

	set_up(&trace, MANY);
	struct event_type *type = &trace.types.items[RIG_WORD], before = *type;
	type->fields = &text;
	type->field_count = 1;
	type->is_variable = true;
	texts = type;
	for (uint32_t i = 0; i < big; i++)
		count += fill_texts(SMALL + i, 1 + i % 2, i / 2);
	assert_int_equal(drain(&trace), big);
	assert_true(by_second >= 1);
	assert_int_equal(observed, count);
	assert_int_equal(unknown_lengths, 0);
	pauses = (struct reader_pauses){ .count = 1, .items = { { now + 10, now + 11 } } };
	count += fill_texts(SMALL, 1, big / 2);
	assert_int_equal(drain(&trace), 1);
	assert_int_equal(observed, count - 1);
	assert_int_equal(unknown_lengths, 1);
	rig_finish(&trace);
	type->fields = before.fields;
	type->field_count = before.field_count;
	tear_down(&trace);
	(void)unused;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	     cmocka_unit_test(test_few_chunks),
		cmocka_unit_test(test_some_chunks),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_large_packets),
		cmocka_unit_test(test_failed_write), cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_stale_copy),   cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_killed_in_a_write),
		cmocka_unit_test(test_killed_before_chunks_are_freed),
		cmocka_unit_test(test_hand),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
