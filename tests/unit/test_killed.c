/*
 * A controller is killed while it empties a pool, and the next one goes on with its trace: at each
 * system call, and at chosen instructions, each event and each loss is in the trace once (B7).
 *
 * The pool is written by hand. The first controller is a child that is traced (ptrace), so that it
 * dies exactly there.
 */
#include <sys/ptrace.h>
#include <sys/user.h>

#include "rig.h"
#include "thin.h"

#include "../../src/control/ctf/metadata.h"
#include "../../src/control/record/resume.h"

#define SMALL 4
#define BIG 4
#define WHOLE (DT_CHUNK_SMALL / 8) /* events of a small chunk */

static uint64_t *words;
static struct dt_chunk *descs;
static uint64_t now, made;
static bool thread_is_alive;

static uint64_t read_clock(void)
{
	return now + (1ULL << 30);
}

static bool alive(void *context, const struct reader_thread *thread)
{
	(void)context;
	(void)thread;
	return thread_is_alive;
}

static uint64_t *chunk_at(uint32_t index)
{
	return (uint64_t *)((char *)rig_pool +
			    dt_chunk_offset(rig_control->chunks_offset, SMALL, index));
}

static void set_up(struct rig_trace *trace)
{
	rig_up(SMALL, BIG, 0);
	rig_open_trace(trace);
	words = (uint64_t *)((char *)rig_pool + dt_words_offset());
	descs = (struct dt_chunk *)((char *)rig_pool + dt_descs_offset(SMALL + BIG));
	now = 3ULL << 40;
	made = 0;
	thread_is_alive = true;
}

static void tear_down(struct rig_trace *trace)
{
	rig_remove(trace);
	rig_down();
}

static void claim(uint32_t thread, uint32_t tid, uint64_t lost)
{
	rig_pool->threads[thread] = (struct dt_thread){
		.claim = 2, .pid = 70, .tid = tid, .chunks = 99, .start = now, .lost = lost
	};
	made += lost;
}

/* `count` bare events; `lost`: of its thread before it took the chunk. */
static void fill(uint32_t index, uint32_t thread, uint32_t sequence, uint32_t state, uint32_t count,
		 uint64_t lost)
{
	descs[index] = (struct dt_chunk){ .begin = now, .sequence = sequence, .lost = lost };
	if (state == DT_CHUNK_PUBLISHED)
		descs[index].used = count * 8, descs[index].count = count;
	for (uint32_t i = 0; i < count; i++)
		chunk_at(index)[i] = ++now << DT_EVENT_ID_BITS | RIG_BARE;
	descs[index].end = ++now;
	words[index] = DT_CHUNK_WORD(DT_CHUNK_GENERATION(words[index]) + 1, thread, state);
	made += count;
}

/* ---- the first controller ------------------------------------------------------------------- */

typedef void (*work_fn)(struct reader *reader);

static struct reader *make_reader(struct trace_writer *writer, struct event_types *types,
				  const struct reader_resume *resume)
{
	struct reader_options options = {
		.pool = rig_pool,
		.pool_size = rig_control->pool_size,
		.small_count = SMALL,
		.big_count = BIG,
		.types = types,
		.writer = writer,
		.alive = alive,
		.clock = read_clock,
		.resume = resume,
	};
	struct reader *reader = NULL;

	RIG_OK(reader_create(&options, &reader));
	return reader;
}

static pid_t start(struct rig_trace *trace, work_fn work)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		struct reader *reader = make_reader(trace->writer, &trace->types, NULL);

		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		work(reader);
		_exit(0);
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL,
				PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD),
			 0);
	return child;
}

/* False: the child has ended. */
static bool go_on(pid_t child, int how)
{
	int status;

	assert_int_equal(ptrace(how, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSTOPPED(status);
}

static unsigned calls_begun;

/* Kills the child before its call number `call` (from 1), or, with `moment`, at the first
 * instruction behind that call where it says so. False: the child came to its end before that. */
static bool kill_at(pid_t child, unsigned call, bool (*moment)(void))
{
	for (calls_begun = 0; calls_begun < call; calls_begun++) {
		if ((calls_begun && !go_on(child, PTRACE_SYSCALL)) ||
		    !go_on(child, PTRACE_SYSCALL))
			return false;
	}
	while (moment && !moment()) {
		if (!go_on(child, PTRACE_SINGLESTEP))
			return false;
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	return true;
}

/* ---- the next controller -------------------------------------------------------------------- */

static void take_over(struct rig_trace *trace)
{
	_cleanup_free_ struct reader_resume *threads = calloc(DT_THREADS_MAX, sizeof(*threads));
	struct resume resume = { rig_pool, threads };
	struct event_types types = { 0 };
	struct trace_writer *writer = NULL;
	struct writer_part part;
	char directory[PATH_MAX];

	writer_identify(trace->writer, &part, directory, sizeof(directory));
	RIG_OK(writer_suspend(trace->writer));
	RIG_OK(writer_reopen(directory, &part, &types, resume_see, &resume, &writer));
	struct reader *reader = make_reader(writer, &types, threads);
	RIG_OK(reader_finish(reader, &trace->totals));
	reader_destroy(reader);
	RIG_OK(writer_close(writer));
	event_types_free(&types);
}

/* Events in a file, all bare, and losses. */
static void judge_file(const char *path, struct rig_verdict *verdict)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	struct metadata_packet head;
	uint64_t discarded = 0;

	for (uint64_t at = 0; file && pread(fileno(file), &head, sizeof(head), (off_t)at) > 0;
	     at += head.packet_size / 8) {
		assert_int_equal(head.magic, METADATA_MAGIC);
		assert_true(head.packet_size >= head.content_size &&
			    head.content_size >= sizeof(head) * 8);
		assert_true(head.events_discarded >= discarded);
		assert_true(at || !head.events_discarded);
		discarded = head.events_discarded;
		verdict->events += head.content_size / 64 - sizeof(head) / 8;
	}
	verdict->discarded += discarded;
}

static struct rig_verdict judge(const struct rig_trace *trace)
{
	struct rig_verdict verdict = { 0 };
	char path[128];

	for (unsigned i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), "%s/stream_%u", trace->directory, i);
		judge_file(path, &verdict);
	}
	return verdict;
}

/* (B7) Once each. */
static void expect_all(const struct rig_trace *trace, const char *where, unsigned number)
{
	struct rig_verdict verdict = judge(trace);

	if (verdict.events + verdict.discarded != made)
		fail_msg("killed %s %u: %lu events and %lu lost of %lu", where, number,
			 verdict.events, verdict.discarded, made);
}

/* ---- at each system call -------------------------------------------------------------------- */

static void drain_and_flush(struct reader *reader)
{
	size_t chunks;

	RIG_OK(reader_drain(reader, &chunks));
	RIG_OK(reader_flush(reader));
}

/* The second packet's header begins `before` bytes before the end of a page of its lane, so that it
 * is written field by field. */
static void fill_pool(uint32_t before)
{
	claim(1, 71, 5);
	claim(2, 72, 2);
	fill(0, 1, 0, DT_CHUNK_PUBLISHED,
	     (DT_CHUNK_SMALL - before - sizeof(struct metadata_packet)) / 8, 0);
	fill(1, 1, 1, DT_CHUNK_PUBLISHED, WHOLE, 3);
	fill(2, 2, 0, DT_CHUNK_PUBLISHED, 100, 2);
	fill(5, 2, 1, DT_CHUNK_OWNED, 50, 2);
}

static void test_killed_at_each_call(void **unused)
{
	for (uint32_t before = 8; before <= 88; before += THIN(8, 16)) {
		bool killed = true;
		unsigned call = 0;

		while (killed) {
			struct rig_trace trace;

			set_up(&trace);
			fill_pool(before);
			killed = kill_at(start(&trace, drain_and_flush), ++call, NULL);
			take_over(&trace);
			expect_all(&trace, "at call", call);
			if (before == 40) {
				struct rig_verdict verdict = rig_judge(&trace, NULL);

				assert_int_equal(verdict.events + verdict.discarded, made);
			}
			tear_down(&trace);
		}
		assert_true(call > 10);
	}
}

/* ---- at chosen instructions ----------------------------------------------------------------- */

static bool is_free(uint32_t index)
{
	return DT_CHUNK_STATE(words[index]) == DT_CHUNK_FREE;
}

static bool half_of_it_is_zero(void)
{
	return !chunk_at(1)[0] != !chunk_at(1)[WHOLE - 1] && !is_free(1);
}

static bool all_of_it_is_zero(void)
{
	for (unsigned i = 0; i < WHOLE; i++) {
		if (chunk_at(1)[i])
			return false;
	}
	return !is_free(1);
}

static void kill_at_moment(work_fn work, unsigned call, bool (*moment)(void), const char *name)
{
	struct rig_trace trace;

	set_up(&trace);
	fill_pool(1000);
	assert_true(kill_at(start(&trace, work), call, moment));
	take_over(&trace);
	expect_all(&trace, name, 0);
	tear_down(&trace);
}

/* A chunk whose events are in the trace, while it is given back. */
static void test_killed_while_a_chunk_is_zeroed(void **unused)
{
	kill_at_moment(drain_and_flush, 1, half_of_it_is_zero, "with a chunk half zeroed");
	kill_at_moment(drain_and_flush, 1, all_of_it_is_zero, "with a chunk zeroed");
}

static void reap(struct reader *reader)
{
	thread_is_alive = false;
	RIG_OK(reader_reap(reader));
}

static void fill_for_reaping(void)
{
	claim(1, 71, 5);
	fill(0, 1, 0, DT_CHUNK_PUBLISHED, 10, 3);
	chunk_at(0)[4] |= DT_EVENT_PENDING; /* a hole, which is told as a loss */
}

static bool record_is_half_freed(void)
{
	const struct dt_thread *record = &rig_pool->threads[1];

	return record->claim && (!record->lost || !record->tid);
}

/* Its losses have been told, a hole among them. From each instruction of the little that
 * follows. */
static void test_killed_while_a_record_is_freed(void **unused)
{
	struct rig_trace trace;

	set_up(&trace);
	fill_for_reaping();
	assert_false(kill_at(start(&trace, reap), UINT_MAX, NULL));
	take_over(&trace);
	expect_all(&trace, "after all", calls_begun);
	tear_down(&trace);

	/* the last write, behind which a process with sanitizers makes calls of their own */
	bool killed = false;
	for (unsigned call = calls_begun; !killed && --call;) {
		set_up(&trace);
		fill_for_reaping();
		killed = kill_at(start(&trace, reap), call, record_is_half_freed);
		take_over(&trace);
		expect_all(&trace, "with a record half freed", call);
		tear_down(&trace);
	}
	assert_true(killed);
}

/* The dead controller told a hole whose chunk is gone: more than what its thread has lost. */
static void test_told_hole_is_gone(void **unused)
{
	struct reader_resume threads[DT_THREADS_MAX] = { [1] = { .told = 1 } };
	struct rig_trace trace;

	set_up(&trace);
	claim(1, 71, 0);
	fill(0, 1, 1, DT_CHUNK_PUBLISHED, 10, 0);
	struct reader *reader = make_reader(trace.writer, &trace.types, threads);
	RIG_OK(reader_finish(reader, &trace.totals));
	reader_destroy(reader);
	RIG_OK(writer_close(trace.writer));
	expect_all(&trace, "behind a hole", 0);
	tear_down(&trace);
}

/* ---- which thread --------------------------------------------------------------------------- */

/* A thread that has the number of one whose chunks haven't been read yet. */
static void test_two_threads_of_a_number(void **unused)
{
	struct dt_pool *pool = rig_make_pool(SMALL, BIG);
	struct reader_resume *threads = calloc(DT_THREADS_MAX, sizeof(*threads));
	struct resume resume = { pool, threads };
	struct packet_seen packet = { .begin = 100, .end = 300, .has_events = true, .lost = 2,
				      .inner_tid = 71, .inner_pid = 70 };

	pool->threads[3] = (struct dt_thread){ .claim = 2, .pid = 70, .tid = 71, .start = 500 };
	pool->threads[4] = (struct dt_thread){ .claim = 2, .pid = 70, .tid = 71, .start = 50 };
	resume_see(&resume, &packet);
	packet.begin = packet.end = 700;
	packet.lost = 5;
	resume_see(&resume, &packet);
	packet.end = 800;
	packet.has_events = false; /* W4 */
	resume_see(&resume, &packet);
	assert_int_equal(threads[4].end, 300);
	assert_int_equal(threads[4].told, 2);
	assert_int_equal(threads[3].end, 700);
	assert_int_equal(threads[3].told, 10);
	munmap(pool, rig_pool_size(SMALL, BIG));
	free(threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_at_each_call),
		cmocka_unit_test(test_killed_while_a_chunk_is_zeroed),
		cmocka_unit_test(test_killed_while_a_record_is_freed),
		cmocka_unit_test(test_told_hole_is_gone),
		cmocka_unit_test(test_two_threads_of_a_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
