/*
 * The built agent, in this process, hit by a trampoline written by hand: every hit is in the trace or
 * counted as lost, whatever happens meanwhile.
 */
#include <pthread.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>

#include "rig.h"

static void *keep_reading(void *argument);
static volatile bool stop_reading;

static void test_one_thread(void **unused)
{
	struct rig_trace trace;

	rig_up(4, 40, 0);
	rig_open(&trace);
	for (uint64_t i = 0; i < 10000; i++) {
		assert_int_equal(rig_hit(RIG_BARE, 0), 1);
		assert_int_equal(rig_hit(RIG_SIX, i), 1);
		assert_int_equal(rig_hit(RIG_WORD, i), 1);
	}
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, 30000);
	assert_int_equal(trace.totals.lost, 0);
	assert_int_equal(trace.totals.holes, 0);
	assert_int_equal(trace.types.items[RIG_BARE].hits, 10000);
	assert_int_equal(trace.types.items[RIG_SIX].hits, 10000);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 30000);
	assert_int_equal(verdict.discarded, 0);
	assert_int_equal(rig_judge(&trace, "arg0 = 9999, arg1 = 10000, arg2 = 10001").events, 1);
	rig_remove(&trace);
	rig_down();
}

/* A pool that nobody reads: the first hits fill it, the others are counted. */
static void test_pool_full(void **unused)
{
	struct rig_trace trace;
	uint64_t recorded = 0, skipped = 0;

	rig_up(1, 2, 0);
	rig_open(&trace);
	for (int i = 0; i < 20000; i++) {
		if (rig_hit(RIG_TWO, 0))
			recorded++;
		else
			skipped++;
	}
	/* 4096 / 24 = 170; 65536 / 24 = 2730. */
	assert_int_equal(recorded, 170 + 2 * 2730);
	size_t chunks;
	RIG_OK(reader_drain(trace.reader, &chunks));
	assert_int_equal(chunks, 3);
	for (int i = 0; i < 100; i++)
		recorded += (uint64_t)rig_hit(RIG_TWO, 0);
	rig_finish(&trace);
	assert_int_equal(recorded, 170 + 2 * 2730 + 100);
	assert_int_equal(trace.totals.events, recorded);
	assert_int_equal(trace.totals.lost, skipped);
	assert_int_equal(trace.types.items[RIG_TWO].lost, skipped);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded);
	assert_int_equal(verdict.discarded, skipped);
	rig_remove(&trace);
	rig_down();
}

/* Losses at the very end are in the trace too, and those of a thread that never got a chunk. */
static void test_losses_with_no_packet_behind(void **unused)
{
	struct rig_trace trace;

	rig_up(1, 0, 0);
	rig_open(&trace);
	int recorded = 0;
	for (int i = 0; i < 600; i++)
		recorded += rig_hit(RIG_BARE, 0);
	assert_int_equal(recorded, 512);
	rig_finish(&trace);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 512);
	assert_int_equal(verdict.discarded, 88);
	rig_remove(&trace);
	rig_down();

	rig_up(1, 0, 0);
	rig_pool->small_free = 0;
	rig_open(&trace);
	for (int i = 0; i < 7; i++)
		assert_int_equal(rig_hit(RIG_BARE, 0), 0);
	rig_finish(&trace);
	assert_int_equal(trace.totals.lost, 7);
	verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, 0);
	assert_int_equal(verdict.discarded, 7);
	rig_remove(&trace);
	rig_down();
}

struct reading {
	struct rig_trace *trace;
	pthread_t thread;
};

static void *keep_reading(void *argument)
{
	struct rig_trace *trace = argument;
	size_t chunks;
	unsigned turn = 0;

	while (!__atomic_load_n(&stop_reading, __ATOMIC_ACQUIRE)) {
		reader_wait(trace->reader, 5);
		RIG_OK(reader_drain(trace->reader, &chunks));
		if (turn++ % 8 == 0)
			RIG_OK(reader_flush(trace->reader));
		if (turn % 16 == 0)
			RIG_OK(reader_reap(trace->reader));
	}
	return NULL;
}

static void start_reading(struct reading *reading, struct rig_trace *trace)
{
	reading->trace = trace;
	stop_reading = false;
	assert_int_equal(pthread_create(&reading->thread, NULL, keep_reading, trace), 0);
}

static void end_reading(struct reading *reading)
{
	__atomic_store_n(&stop_reading, true, __ATOMIC_RELEASE);
	pthread_join(reading->thread, NULL);
}

#define THREADS 12
#define THREAD_HITS 30000

struct worker {
	pthread_t thread;
	uint32_t tid;
	uint64_t recorded, skipped;
};

static void *work(void *argument)
{
	struct worker *worker = argument;

	worker->tid = (uint32_t)gettid();
	for (int i = 0; i < THREAD_HITS; i++) {
		if (rig_hit(RIG_TWO, (uint64_t)i))
			worker->recorded++;
		else
			worker->skipped++;
	}
	return NULL;
}

static void test_many_threads(void **unused)
{
	struct worker workers[THREADS] = { 0 };
	struct rig_trace trace;
	struct reading reading;
	uint64_t recorded = 0, skipped = 0;
	char tid[32];

	rig_up(16, 30, 0);
	rig_open(&trace);
	start_reading(&reading, &trace);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		recorded += workers[i].recorded;
		skipped += workers[i].skipped;
	}
	end_reading(&reading);
	rig_finish(&trace);
	assert_int_equal(recorded + skipped, THREADS * THREAD_HITS);
	assert_int_equal(trace.totals.events, recorded);
	assert_int_equal(trace.totals.lost, skipped);
	assert_int_equal(trace.totals.holes, 0);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded);
	assert_int_equal(verdict.discarded, skipped);
	for (int i = 0; i < THREADS; i += 5) {
		snprintf(tid, sizeof(tid), " tid = %u,", workers[i].tid);
		assert_int_equal(rig_judge(&trace, tid).events, workers[i].recorded);
	}
	rig_remove(&trace);
	rig_down();
}

/* Thread blocks, tids and records are recycled; each thread's events are kept. */
static void *work_little(void *argument)
{
	uint64_t *recorded = argument;

	for (int i = 0; i < 3; i++)
		*recorded += (uint64_t)rig_hit(RIG_TWO, 0);
	return NULL;
}

static void test_threads_come_and_go(void **unused)
{
	struct rig_trace trace;
	struct reading reading;
	uint64_t recorded = 0;

	rig_up(200, 4, 0);
	rig_open(&trace);
	start_reading(&reading, &trace);
	for (int i = 0; i < 2000; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, work_little, &recorded), 0);
		pthread_join(thread, NULL);
	}
	end_reading(&reading);
	RIG_OK(reader_reap(trace.reader));
	uint32_t used = 0;
	for (uint32_t i = 0; i < DT_THREADS_MAX; i++)
		used += rig_pool->threads[i].claim != 0;
	assert_true(used <= 1); /* the last one may not be quite gone */
	rig_finish(&trace);
	assert_int_equal(trace.totals.events, recorded);
	assert_int_equal(recorded + trace.totals.lost, 6000);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded);
	assert_int_equal(verdict.discarded, trace.totals.lost);
	rig_remove(&trace);
	rig_down();
}

/* ---- signals ------------------------------------------------------------------------------ */

static uint64_t handler_recorded, handler_skipped;

static void on_signal(int number)
{
	(void)number;
	for (int i = 0; i < 40; i++) {
		if (rig_hit(RIG_SIX, 0))
			handler_recorded++;
		else
			handler_skipped++;
	}
}

static void test_nested_signals(void **unused)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval often = { { 0, 150 }, { 0, 150 } }, never = { 0 };
	struct rig_trace trace;
	struct reading reading;
	uint64_t recorded = 0, skipped = 0;
	sigset_t set;

	rig_up(4, 60, 0);
	rig_open(&trace);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	start_reading(&reading, &trace);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	handler_recorded = handler_skipped = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 3000000; i++) {
		if (rig_hit(RIG_BARE, 0))
			recorded++;
		else
			skipped++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	end_reading(&reading);
	rig_finish(&trace);
	assert_true(handler_recorded + handler_skipped > 40 * 100);
	assert_int_equal(trace.types.items[RIG_BARE].hits, recorded);
	assert_int_equal(trace.types.items[RIG_SIX].hits, handler_recorded);
	assert_int_equal(trace.types.items[RIG_BARE].lost, skipped);
	assert_int_equal(trace.types.items[RIG_SIX].lost, handler_skipped);
	assert_int_equal(trace.totals.holes, 0);
	struct rig_verdict verdict = rig_judge(&trace, NULL);
	assert_int_equal(verdict.events, recorded + handler_recorded);
	assert_int_equal(verdict.discarded, skipped + handler_skipped);
	rig_remove(&trace);
	rig_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_pool_full),
		cmocka_unit_test(test_losses_with_no_packet_behind),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_threads_come_and_go),
		cmocka_unit_test(test_nested_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
