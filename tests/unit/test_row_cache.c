/*
 * Rows of unwind tables: what the agent keeps is what it would find (T4, T5), also while threads
 * look up addresses that share a place, and while tables change.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent_rows.h"
#include "shared/layout.h"

#define ROWS 512u
#define STEP 0x2000u /* rows that are so far apart have the same place */
#define BASE 0x7f1234560000ULL
#define TURNS 40u
#define THREADS 4

static uint64_t kept[DT_ROWS_CACHED];

/* A table of one module: row i is for the addresses from BASE + i * 64 on, in STEP after STEP. */
struct table {
	struct dt_unwind head;
	struct dt_unwind_module module;
	struct dt_unwind_row rows[ROWS];
};

static struct table tables[TURNS + 1]; /* by turn */

static void make(struct table *table, unsigned seed)
{
	table->head = (struct dt_unwind){ .module_count = 1,
					  .rows_offset = offsetof(struct table, rows) };
	table->module = (struct dt_unwind_module){
		.start = BASE, .end = BASE + ROWS / 4 * STEP, .base = BASE, .count = ROWS
	};
	for (unsigned i = 0; i < ROWS; i++) {
		seed = seed * 1103515245 + 12345;
		table->rows[i] = (struct dt_unwind_row){
			.pc = i / 4 * STEP + i % 4 * 64,
			/* a third is too large to be kept, or negative */
			.cfa = (int16_t)(i % 3 ? seed >> 16 & 2047 : seed >> 16),
			.cfa_rule = seed >> 8 & 7,
			.rbp_rule = (seed >> 11) % 3,
		};
		if (table->rows[i].rbp_rule)
			table->rows[i].rbp = (int8_t)(i % 5 ? -(int)(seed >> 13 & 31) :
							      (int)(seed >> 13));
	}
}

/* Does the agent give the row for each address, whatever was looked up before? */
static bool agrees(unsigned turn, unsigned number)
{
	const struct dt_unwind_row *row = &tables[turn].rows[number];
	struct dt_unwind_row found = agent_row_of(kept, turn, &tables[turn].head,
						  BASE + row->pc + 1 + number % 60);

	return found.cfa_rule == row->cfa_rule &&
	       (row->cfa_rule == DT_CFA_NONE ||
		(found.cfa == row->cfa && found.rbp == row->rbp &&
		 found.rbp_rule == row->rbp_rule));
}

static void test_rows_are_those_of_the_table(void **state)
{
	for (unsigned turn = 1; turn <= TURNS; turn++) {
		for (unsigned i = 0; i < 3 * ROWS; i++) {
			assert_true(agrees(turn, i % ROWS)); /* searched: others had its place */
			assert_true(agrees(turn, i % ROWS)); /* T5: kept */
		}
	}
}

/* A row of an earlier turn, or of turn 0, is not believed (T4). */
static void test_turns(void **state)
{
	for (unsigned i = 0; i < ROWS; i++) {
		assert_true(agrees(1, i));
		assert_true(agrees(2, i));
		assert_true(agrees(1, i));
		tables[0] = tables[i % 7 + 1];
		assert_true(agrees(0, i));
		assert_true(agrees(2, i));
	}
}

/* Outside of all modules, and where no address can be. */
static void test_no_row(void **state)
{
	static const uint64_t keys[] = { 0, 1, 2, 0x1000, BASE, BASE - 1, 1ULL << 47, ~0ULL,
					 BASE + ROWS / 4 * STEP + 1, BASE | 1ULL << 48 };

	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
			assert_int_equal(agent_row_of(kept, 1, &tables[1].head, keys[i]).cfa_rule,
					 DT_CFA_NONE);
			assert_int_equal(agent_row_of(kept, 0, &tables[1].head, keys[i]).cfa_rule,
					 DT_CFA_NONE);
		}
	}
	assert_int_equal(agent_row_of(kept, 1, NULL, BASE + 1 + STEP * ROWS).cfa_rule, DT_CFA_NONE);
}

static void *look(void *first)
{
	unsigned state = (unsigned)(size_t)first, wrong = 0;

	for (unsigned i = 0; i < 200000; i++) {
		state = state * 1103515245 + 12345;
		wrong += !agrees(1 + (state >> 8) % TURNS, (state >> 16) % ROWS);
	}
	return (void *)(size_t)wrong;
}

/* Threads that are still at an old turn store while others look (T5). */
static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	void *wrong;

	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, (void *)(i + 1)), 0);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_are_those_of_the_table),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_no_row),
		cmocka_unit_test(test_threads),
	};

	for (unsigned i = 1; i <= TURNS; i++)
		make(&tables[i], i * 7919);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
