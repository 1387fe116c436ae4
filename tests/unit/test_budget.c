/* Which tracepoints a budget demotes: what is frequent and short first, exact counts last. What
 * hits cost: trampolines run here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/session/budget/budget_choice.h"
#include "control/session/budget/budget_state.h"
#include "control/tracers/count/demotion.h"
#include "control/tracers/count/hit_cost.h"
#include "control/trampoline/hit_timing.h"

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

/* More are off than one stop takes out: the most frequent go, wherever they are in the list, and
 * the least frequent come back. */
static void test_out_by_rate(void **state)
{
	enum { COUNT = BUDGET_OUT_MAX + 500 };
	struct session *session = calloc(1, sizeof(*session));
	struct tracepoint *tracepoints = calloc(COUNT, sizeof(*tracepoints));
	struct demotion *demotions = calloc(COUNT, sizeof(*demotions));

	(void)state;
	assert_true(session && tracepoints && demotions);
	for (size_t i = 0; i < COUNT; i++) {
		demotions[i].rate = (double)i; /* the most frequent last */
		tracepoints[i].demotion = &demotions[i];
		tracepoints[i].level = SWITCH_OFF;
		assert_true(vec_push(&session->tracepoints, &tracepoints[i]));
	}
	for (int is_out = 0; is_out < 2; is_out++) {
		struct tracepoint_list list = { 0 };

		for (size_t i = 0; i < COUNT; i++)
			demotions[i].is_out = is_out;
		budget_out_list(session, is_out, &list);
		assert_int_equal(list.count, BUDGET_OUT_MAX);
		for (size_t i = 0; i < list.count; i++)
			assert_ptr_equal(list.items[i],
					 &tracepoints[is_out ? i : COUNT - 1 - i]);
		vec_free(&list);
		budget_out_list(session, !is_out, &list);
		assert_int_equal(list.count, 0);
	}
	vec_free(&session->tracepoints);
	free(session);
	free(tracepoints);
	free(demotions);
}

/* Trampolines run in this process: each hit is recorded, counted or neither. */
static void test_trampolines_are_timed(void **state)
{
	struct hit_timing timings[HIT_TIMING_SPREADS] = { { 0 } };

	(void)state;
	assert_true(hit_timing_measure(timings));
	for (size_t i = 0; i < HIT_TIMING_SPREADS; i++)
		assert_true(timings[i].pair != 0 && timings[i].bare != 0);
}

/* Whatever was measured: a recorded hit costs at least as much as a counted one, and so on. */
static void test_costs_fall_by_level(void **state)
{
	static const struct tracer tracer = { .kind = TRACER_CTF, .uses_pool = true };
	struct tracepoint *tracepoint = calloc(1, sizeof(*tracepoint));

	(void)state;
	tracepoint->tracer = &tracer;
	tracepoint->probe.event.size = 8;
	for (int calibrated = 0; calibrated < 2; calibrated++) {
		for (size_t spread = 0; spread < 2000; spread += 1 + spread / 7) {
			struct hit_cost cost = hit_cost_of(tracepoint, spread);

			assert_true(cost.recorded >= cost.counted);
			assert_true(cost.counted >= cost.off && cost.off > 0);
		}
		hit_cost_calibrate();
	}
	free(tracepoint);
}

/* What is hit once in 1,000 hits, or more often, has its share of the caches. */
static void test_spread(void **state)
{
	static const uint64_t hits[] = { 1000, 5, 0, 1, 2 };
	size_t spread = 0;

	(void)state;
	for (size_t i = 0; i < 5; i++)
		hit_cost_spread_add(&spread, hits[i], 2008);
	assert_int_equal(spread, 3);
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
		cmocka_unit_test(test_out_by_rate),
		cmocka_unit_test(test_trampolines_are_timed),
		cmocka_unit_test(test_costs_fall_by_level),
		cmocka_unit_test(test_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
