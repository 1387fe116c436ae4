/*
 * The table of keys: many threads and a signal handler look up random keys at once. Each hit is
 * counted under one index (A4), each key has one index for all (A2), and an index names its key
 * (A3), also when the table is full. DYNTRACE_KEY_ROUNDS: more than the usual rounds, for torture.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <cmocka.h>

#include "shared/key_find.h"

#define THREADS 8
#define LOOKUPS 3000u
#define KEYS_MOST 400u
#define CAPACITY_MOST 300u
#define TEXT_MOST 40u

static struct {
	struct dt_key_table *table;
	struct dt_key_shape shape;
	unsigned keys; /* different ones */
	bool has_texts;
	uint64_t cells[CAPACITY_MOST + 1]; /* hits by index */
	uint64_t asked[KEYS_MOST], other[KEYS_MOST]; /* hits by key: all, and without room */
	uint64_t index_of[KEYS_MOST]; /* 0: none seen */
	unsigned torn; /* keys with two indices */
} run;

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Key `n` as a text; of 8 keys, two have texts of which one begins with the other. */
static uint32_t text_of(unsigned n, uint8_t *bytes)
{
	uint32_t size = 1 + n % TEXT_MOST;

	memset(bytes, 'a', size);
	memcpy(bytes, &n, size < sizeof(n) ? size : sizeof(n));
	return size;
}

/* Half of the texts share a hash: the table must compare them whole. */
static uint64_t hash_of(unsigned n, const uint8_t *bytes, uint32_t size)
{
	return n % 2 ? 42 : dt_bytes_hash(bytes, size);
}

/* Only async-signal-safe: a handler calls it, too. */
static void look_up(unsigned n)
{
	uint8_t bytes[TEXT_MOST];
	uint32_t size = run.has_texts ? text_of(n, bytes) : 0;
	uint64_t key = run.has_texts ? hash_of(n, bytes, size) : (uint64_t)n * 0x9e3779b9u;
	uint32_t index = dt_key_find(run.table, run.shape, key, size ? bytes : NULL, size);
	uint64_t none = 0;

	__atomic_fetch_add(&run.asked[n], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&run.cells[index <= CAPACITY_MOST ? index : 0], 1, __ATOMIC_RELAXED);
	if (index == DT_KEY_OTHER)
		__atomic_fetch_add(&run.other[n], 1, __ATOMIC_RELAXED);
	else if (!__atomic_compare_exchange_n(&run.index_of[n], &none, index, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		 none != index)
		__atomic_fetch_add(&run.torn, 1, __ATOMIC_RELAXED);
}

static void on_signal(int number)
{
	static uint64_t state = 88172645463325252u;

	(void)number;
	look_up((unsigned)(next_random(&state) % run.keys));
}

static void *look_up_many(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed | 1;

	for (unsigned i = 0; i < LOOKUPS; i++)
		look_up((unsigned)(next_random(&state) % run.keys));
	return NULL;
}

static void make_table(uint32_t capacity, uint32_t texts)
{
	uint32_t bits = 2;

	while (1u << bits < capacity * 2)
		bits++;
	uint32_t names = dt_keys_offset(bits) + capacity * (uint32_t)sizeof(struct dt_key);
	run.shape = (struct dt_key_shape){ bits, capacity, names + texts };
	run.table = aligned_alloc(64, DT_ROUND_UP(run.shape.size, 64));
	assert_non_null(run.table);
	memset(run.table, 0, run.shape.size);
	run.table->bits = bits;
	run.table->capacity = capacity;
	run.table->used = 1;
	run.table->size = run.shape.size;
	run.table->texts = names;
}

/* Every index names the key that it was given for. */
static void check_names(void)
{
	for (unsigned n = 0; n < run.keys; n++) {
		uint32_t index = (uint32_t)run.index_of[n];
		const struct dt_key *key = dt_key_in(run.table, run.shape, index);
		uint8_t bytes[TEXT_MOST];

		if (!run.index_of[n])
			continue;
		assert_true(run.index_of[n] < run.shape.capacity);
		if (!run.has_texts) {
			assert_true(key->number == (uint64_t)n * 0x9e3779b9u && !key->size);
			continue;
		}
		assert_int_equal(key->size, text_of(n, bytes));
		assert_memory_equal((const uint8_t *)run.table + key->text, bytes, key->size);
	}
}

static void check_sums(void)
{
	uint64_t counted = 0, asked = 0, other = 0;

	for (uint32_t i = 0; i <= CAPACITY_MOST; i++)
		counted += run.cells[i];
	for (unsigned n = 0; n < run.keys; n++) {
		uint64_t named = run.index_of[n] ? run.cells[run.index_of[n]] : 0;

		assert_true(named + run.other[n] == run.asked[n]);
		asked += run.asked[n];
		other += run.other[n];
	}
	assert_true(counted == asked && other == run.cells[DT_KEY_OTHER]);
	assert_int_equal(run.torn, 0);
}

static void run_once(uint64_t *state)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { 0 };
	pthread_t threads[THREADS];

	memset(&run, 0, sizeof(run));
	run.keys = 1 + (unsigned)(next_random(state) % KEYS_MOST);
	run.has_texts = next_random(state) % 2;
	make_table(2 + (uint32_t)(next_random(state) % (CAPACITY_MOST - 2)),
		   next_random(state) % 3 ? KEYS_MOST * THREADS * TEXT_MOST : 512);
	setitimer(ITIMER_REAL, &often, NULL);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_up_many,
						(void *)(uintptr_t)next_random(state)), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	check_sums();
	check_names();
	free(run.table);
}

static void test_random_runs(void **unused)
{
	const char *rounds = getenv("DYNTRACE_KEY_ROUNDS");
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	uint64_t state = 0x2545f4914f6cdd1d;

	(void)unused;
	sigaction(SIGALRM, &action, NULL);
	for (unsigned long i = rounds ? strtoul(rounds, NULL, 10) : 40; i; i--)
		run_once(&state);
}

/* The target can write the table: what it finds there leads nowhere else. */
static void test_damaged_tables(void **unused)
{
	uint64_t state = 0x9e3779b97f4a7c15;

	(void)unused;
	for (unsigned round = 0; round < 2000; round++) {
		memset(&run, 0, sizeof(run));
		run.keys = 8;
		run.has_texts = true;
		make_table(8, 64);
		for (uint32_t at = 0; at + 8 <= run.shape.size; at += 8) {
			uint64_t bytes = next_random(&state);

			if (next_random(&state) % 3 == 0)
				memcpy((uint8_t *)run.table + at, &bytes, sizeof(bytes));
		}
		for (unsigned n = 0; n < run.keys; n++) {
			uint8_t bytes[TEXT_MOST];
			uint32_t size = text_of(n, bytes);

			assert_true(dt_key_find(run.table, run.shape, n, bytes, size) <
				    run.shape.capacity);
		}
		free(run.table);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_runs),
					    cmocka_unit_test(test_damaged_tables) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
