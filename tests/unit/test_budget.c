/* Which tracepoints a budget demotes: what is frequent and short first, exact counts last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/session/budget/budget_choice.h"

#define ITEM(hits, worth_of_one)                                                     \
	{                                                                            \
		.rate = (hits), .cost = { 50, 12, 0 }, .worth = (worth_of_one),      \
		.has_counted = true                                                  \
	}

static void test_what_fits_stays(void **state)
{
	struct budget_item items[] = { ITEM(1000, 1), ITEM(10, 1) };

	(void)state;
	assert_true(budget_choice_lower(items, 2, 60000));
	assert_int_equal(items[0].level, SWITCH_ON);
	assert_int_equal(items[1].level, SWITCH_ON);
}

static void test_frequent_first(void **state)
{
	struct budget_item items[] = { ITEM(100, 1), ITEM(1000, 1), ITEM(10, 1) };

	(void)state;
	assert_true(budget_choice_lower(items, 3, 20000));
	assert_int_equal(items[0].level, SWITCH_ON);
	assert_int_equal(items[1].level, SWITCH_COUNTED);
	assert_int_equal(items[2].level, SWITCH_ON);
	assert_true(budget_choice_cost(items, 3) <= 20000);
}

static void test_long_calls_tell_more(void **state)
{
	struct budget_item items[] = { ITEM(1000, 10), ITEM(900, 1) };

	(void)state;
	assert_true(budget_choice_lower(items, 2, 65000));
	assert_int_equal(items[0].level, SWITCH_ON);
	assert_int_equal(items[1].level, SWITCH_COUNTED);
}

/* A count is exact as long as it fits: nothing is off before all are counted that cost as much. */
static void test_off_last(void **state)
{
	struct budget_item items[] = { ITEM(1000, 1), ITEM(900, 1), ITEM(800, 1) };

	(void)state;
	assert_true(budget_choice_lower(items, 3, 3 * 12000));
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(items[i].level, SWITCH_COUNTED);
	assert_true(budget_choice_lower(items, 3, 2 * 12000));
	assert_int_equal(items[0].level, SWITCH_OFF);
	assert_int_equal(items[1].level, SWITCH_COUNTED);
	assert_int_equal(items[2].level, SWITCH_COUNTED);
}

/* What only counts anyway has nothing between on and off. */
static void test_no_step_between(void **state)
{
	struct budget_item items[] = { { .rate = 1000, .cost = { 12, 12, 0 }, .worth = 1 } };

	(void)state;
	assert_true(budget_choice_lower(items, 1, 100));
	assert_int_equal(items[0].level, SWITCH_OFF);
	assert_true(budget_choice_raise(items, 1, 20000));
	assert_int_equal(items[0].level, SWITCH_ON);
}

static void test_back_within_the_limit(void **state)
{
	struct budget_item items[] = { ITEM(1000, 1), ITEM(10, 1), ITEM(100, 1), ITEM(5, 1) };

	(void)state;
	for (size_t i = 0; i < 4; i++)
		items[i].level = SWITCH_COUNTED;
	items[3].is_fixed = true;
	assert_true(budget_choice_raise(items, 4, 20000));
	assert_int_equal(items[0].level, SWITCH_COUNTED);
	assert_int_equal(items[1].level, SWITCH_ON);
	assert_int_equal(items[2].level, SWITCH_ON);
	assert_int_equal(items[3].level, SWITCH_COUNTED);
	assert_true(budget_choice_cost(items, 4) <= 20000);
}

static void test_one_step_at_a_time(void **state)
{
	struct budget_item items[] = { ITEM(1, 1) };

	(void)state;
	items[0].level = SWITCH_OFF;
	assert_true(budget_choice_raise(items, 1, 1e9));
	assert_int_equal(items[0].level, SWITCH_COUNTED);
	assert_true(budget_choice_raise(items, 1, 1e9));
	assert_int_equal(items[0].level, SWITCH_ON);
}

/* Whatever the rates: what fits after lowering still fits, and only as much is off as must be. */
static void test_any_rates(void **state)
{
	struct budget_item items[64];

	(void)state;
	srand(1);
	for (int round = 0; round < 2000; round++) {
		double limit = rand() % 100000;

		for (size_t i = 0; i < 64; i++)
			items[i] = (struct budget_item)ITEM(rand() % 2000, 1 + rand() % 50);
		assert_true(budget_choice_lower(items, 64, limit));
		assert_true(budget_choice_cost(items, 64) <= limit);
		assert_true(budget_choice_raise(items, 64, limit));
		assert_true(budget_choice_cost(items, 64) <= limit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_fits_stays),
		cmocka_unit_test(test_frequent_first),
		cmocka_unit_test(test_long_calls_tell_more),
		cmocka_unit_test(test_off_last),
		cmocka_unit_test(test_no_step_between),
		cmocka_unit_test(test_back_within_the_limit),
		cmocka_unit_test(test_one_step_at_a_time),
		cmocka_unit_test(test_any_rates),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
