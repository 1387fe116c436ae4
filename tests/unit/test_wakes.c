/*
 * When a controller that sleeps is woken (B11): threads of the target publish chunks, or ask for
 * something; and a target that lies.
 */
#include <pthread.h>
#include <sched.h>

#include "control/record/pool.h"
#include "rig.h"

#define SMALL 16
#define BIG 240 /* with the small ones so many that the controller waits for DT_WAKE_CHUNKS */
#define BLOCK_MS 20

static pthread_t sleeper;
static bool is_awake;
static bool always_again; /* no call of futex sleeps: the word has just changed */
static unsigned calls;

/* The one that pool_wait calls. */
long syscall(long number, ...)
{
	va_list list;
	long args[6], result;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_futex && always_again) {
		calls++;
		errno = EAGAIN;
		return -1;
	}
	register long r10 __asm__("r10") = args[3];
	register long r8 __asm__("r8") = args[4];
	register long r9 __asm__("r9") = args[5];
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(args[0]), "S"(args[1]), "d"(args[2]), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	if (result < 0 && result > -4096) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

static void *wait_for_chunks(void *seen)
{
	pool_wait(rig_pool, (uint32_t)(uint64_t)seen, NULL);
	__atomic_store_n(&is_awake, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* Returns when the sleeper has told the target that it sleeps. */
static void begin_sleep(uint32_t seen)
{
	is_awake = false;
	assert_int_equal(pthread_create(&sleeper, NULL, wait_for_chunks, (void *)(uint64_t)seen),
			 0);
	while (!__atomic_load_n(&rig_pool->waiting, __ATOMIC_SEQ_CST))
		sched_yield();
}

static void publish(unsigned chunks)
{
	uint32_t before = rig_pool->wake;

	while (rig_pool->wake - before < chunks)
		assert_true(rig_hit(RIG_BARE, 0));
}

static void expect_sleep(void)
{
	assert_int_equal(rig_pool->waiting, 1);
	assert_false(__atomic_load_n(&is_awake, __ATOMIC_SEQ_CST));
}

/* (B11) The last of the chunks wakes the controller, none before it. */
static void test_chunks(void **unused)
{
	rig_up(SMALL, BIG, 0);
	for (uint32_t round = 0; round < 3; round++) {
		begin_sleep(rig_pool->wake);
		for (unsigned i = 1; i < DT_WAKE_CHUNKS; i++) {
			publish(1);
			expect_sleep();
		}
		publish(1);
		assert_int_equal(pthread_join(sleeper, NULL), 0);
		assert_int_equal(rig_pool->waiting, 0);
	}
	rig_down();
}

/* Chunks that were published before the sleep count, too. */
static void test_chunks_before(void **unused)
{
	rig_up(SMALL, BIG, 0);
	publish(DT_WAKE_CHUNKS);
	pool_wait(rig_pool, 0, NULL); /* returns at once */
	begin_sleep(1);
	expect_sleep();
	publish(1);
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	rig_down();
}

/* Of a small buffer, a 32nd at most has to be full. */
static void test_small_pool(void **unused)
{
	rig_up(8, 0, 0);
	begin_sleep(rig_pool->wake);
	publish(1);
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	rig_down();
	rig_up(64, 0, 0);
	begin_sleep(rig_pool->wake);
	publish(1);
	expect_sleep();
	publish(1);
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	rig_down();
}

/* Other threads keep all chunks but so many. */
static void keep_all_but(uint32_t small, uint32_t big)
{
	uint64_t *words = (uint64_t *)((char *)rig_pool + dt_words_offset());

	for (uint32_t i = small; i < SMALL + BIG - big; i++)
		words[i] = DT_CHUNK_WORD(1, 99, DT_CHUNK_OWNED);
	rig_pool->small_free = (int32_t)small;
	rig_pool->big_free = (int32_t)big;
}

/* A thread that finds no room wakes the controller, if fewer chunks than it waits for are
 * published: no more will be. */
static void test_no_room(void **unused)
{
	rig_up(SMALL, BIG, 0);
	keep_all_but(0, 1);
	assert_true(rig_hit(RIG_BARE, 0)); /* has the last one */
	begin_sleep(rig_pool->wake);
	while (rig_hit(RIG_BARE, 0))
		;
	assert_int_equal(rig_pool->waiting, 0);
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	rig_down();
}

/* So does the one that takes the last chunk: others may be without one. */
static void test_last_chunk(void **unused)
{
	rig_up(SMALL, BIG, 0);
	keep_all_but(0, DT_WAKE_CHUNKS - 1);
	begin_sleep(rig_pool->wake);
	publish(DT_WAKE_CHUNKS - 3);
	expect_sleep();
	publish(1);
	assert_int_equal(rig_pool->waiting, 0);
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	rig_down();
}

static void *ask(void *unused)
{
	rig_hit_raw(DT_ASK_EXEC, 0, 0);
	return NULL;
}

/* A thread that asks for something wakes the controller, before it sleeps and while it does. */
static void test_question(void **unused)
{
	pthread_t asker;

	rig_up(SMALL, BIG, 0);
	rig_control->block_ms = BLOCK_MS; /* nobody answers */
	begin_sleep(rig_pool->wake);
	assert_int_equal(pthread_create(&asker, NULL, ask, NULL), 0);
	assert_int_equal(pthread_join(sleeper, NULL), 0);
	assert_int_equal(pthread_join(asker, NULL), 0);
	uint32_t seen = rig_pool->wake;
	ask(NULL);
	pool_wait(rig_pool, seen, NULL);
	rig_down();
}

/* A target that changes the word all the time doesn't keep the controller from going on. */
static void test_liar(void **unused)
{
	rig_up(SMALL, BIG, 0);
	always_again = true;
	calls = 0;
	pool_wait(rig_pool, rig_pool->wake, NULL);
	always_again = false;
	assert_in_range(calls, 1, DT_WAKE_CHUNKS);
	assert_int_equal(rig_pool->waiting, 0);
	rig_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chunks),	   cmocka_unit_test(test_chunks_before),
		cmocka_unit_test(test_small_pool), cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_last_chunk), cmocka_unit_test(test_question),
		cmocka_unit_test(test_liar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
