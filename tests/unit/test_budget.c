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

/* What is out is expected to come half as often after every ten seconds, and as often as the target
 * works: up to a tenth of a processor it may do what it likes. */
static void test_out_expected(void **state)
{
	static const uint64_t second = 1000000000;
	struct demotion demotion = { .rate = 800, .out_since = second };
	struct budget budget = { .busy = 0.5, .busy_before = 0.01 };

	(void)state;
	assert_true(budget_out_expected(&budget, &demotion, 2 * second) == 800);
	assert_true(budget_out_expected(&budget, &demotion, 12 * second) == 400);
	assert_true(budget_out_expected(&budget, &demotion, 32 * second) == 100);
	budget.busy = 0; /* the last second isn't enough */
	budget.busy_before = 0.5;
	assert_true(budget_out_expected(&budget, &demotion, 2 * second) == 800);
	budget.busy_before = BUDGET_IDLE_CPU / 4;
	assert_true(budget_out_expected(&budget, &demotion, 2 * second) == 200);
	assert_true(budget_out_expected(&budget, &demotion, UINT64_MAX) == 0);
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

/* A time without hits that is too long, as where code lies badly, makes no hit cheaper. */
static void test_hits_get_no_cheaper(void **state)
{
	struct hit_timing timings[HIT_TIMING_SPREADS] = { { 11, 26, 1, 1 },
							  { 10, 30, 4, 0.5 },
							  { 13, 29, 9, 3 },
							  { 12, 60, -2, -10 } };

	(void)state;
	hit_timing_level(timings);
	assert_true(timings[1].bare == 11 && timings[1].off == 1 && timings[1].counted == 4);
	assert_true(timings[2].bare == 13 && timings[2].pair == 30 && timings[2].off == 3);
	assert_true(timings[3].bare == 13 && timings[3].pair == 60);
	assert_true(timings[3].counted == 9 && timings[3].off == 3);
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

/* Hits per 50 ms of CPU time, if all hits cost `scale` times as much as timed, whose cost is this
 * share of the CPU time. */
static uint64_t hits_at(double scale, double share)
{
	return (uint64_t)(100000 * (1 - scale * share));
}

static struct budget_span span_of(double share)
{
	return (struct budget_span){ .cpu = 50e6, .cost = share * 50e6 };
}

/* (U14) What hits cost shows in what the target gets done without them; two of three tracepoints
 * tell the truth, one is hit in other places now. */
static void test_scale_is_found(void **state)
{
	static const double scales[] = { 1, 1.5, 4, 30 };
	static const double shares[] = { 0.5, 0.3, 0.1, 0.03 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		for (int raised = 0; raised < 2; raised++) {
			double from = raised ? shares[i] / 10 : shares[i], to = shares[i] / 10;
			struct budget_scale scale;

			to = raised ? shares[i] : to;
			uint64_t before = hits_at(scales[i], from), after = hits_at(scales[i], to);
			struct budget_pace paces[] = { { before, 3 * after },
						       { before, after },
						       { before, after },
						       { 0, after },
						       { before, 0 } };
			budget_scale_init(&scale);
			assert_true(budget_scale_compare(&scale, paces, 5, span_of(from),
							 span_of(to)));
			assert_true(scale.is_measured);
			/* the more it differs from 1, the more it must differ by now */
			assert_true(scale.scale >= 1 + 0.8 * (scales[i] - 1));
			assert_true(scale.scale <= 1.05 * scales[i]);
		}
	}
}

/* Small costs and few hits tell nothing; a slower target isn't a negative cost. */
static void test_scale_needs_evidence(void **state)
{
	struct budget_pace little[] = { { 1000, 1300 } }, few[] = { { 3, 100 } },
			   slower[] = { { 1000, 300 } };
	struct budget_scale scale;

	(void)state;
	budget_scale_init(&scale);
	assert_false(budget_scale_compare(&scale, little, 1, span_of(0.01), span_of(0.002)));
	assert_false(budget_scale_compare(&scale, few, 1, span_of(0.5), span_of(0)));
	assert_true(scale.scale == 1 && !scale.is_measured);
	assert_true(budget_scale_compare(&scale, slower, 1, span_of(0.5), span_of(0)));
	assert_true(scale.scale == 1);
}

/* One strange measurement after several good ones changes little; a minute later it counts. */
static void test_scale_is_steady(void **state)
{
	struct budget_scale scale;

	(void)state;
	budget_scale_init(&scale);
	for (int i = 0; i < 5; i++) {
		struct budget_pace good[] = { { hits_at(2, 0.2), hits_at(2, 0) } };

		assert_true(budget_scale_compare(&scale, good, 1, span_of(0.2), span_of(0)));
	}
	for (int aged = 0; aged < 2; aged++) {
		struct budget_pace odd[] = { { hits_at(8, 0.1), hits_at(8, 0) } };
		struct budget_scale copy = scale;

		if (aged)
			budget_scale_age(&copy, 60);
		assert_true(budget_scale_compare(&copy, odd, 1, span_of(0.1), span_of(0)));
		assert_true(aged ? copy.scale > 6 : copy.scale < 5);
	}
}

enum { LOOKED_AT = 4 };

/* A session with a budget, as far as looks need it. */
struct looked {
	struct session *session;
	struct budget *budget;
	struct tracepoint *tracepoints;
	struct demotion *demotions;
};

static struct looked make_looked(void)
{
	struct looked l = { calloc(1, sizeof(*l.session)), calloc(1, sizeof(*l.budget)),
			    calloc(LOOKED_AT, sizeof(*l.tracepoints)),
			    calloc(LOOKED_AT, sizeof(*l.demotions)) };

	assert_true(l.session && l.budget && l.tracepoints && l.demotions);
	l.session->budget = l.budget;
	budget_scale_init(&l.budget->scale);
	l.budget->count = LOOKED_AT;
	l.budget->tracepoints = calloc(LOOKED_AT, sizeof(*l.budget->tracepoints));
	l.budget->paces = calloc(LOOKED_AT, sizeof(*l.budget->paces));
	for (size_t i = 0; i < LOOKED_AT; i++) {
		l.tracepoints[i].demotion = &l.demotions[i];
		l.budget->tracepoints[i] = &l.tracepoints[i];
		assert_true(vec_push(&l.session->tracepoints, &l.tracepoints[i]));
	}
	return l;
}

static void free_looked(struct looked *l)
{
	vec_free(&l->session->tracepoints);
	free(l->budget->tracepoints);
	free(l->budget->paces);
	free(l->session);
	free(l->budget);
	free(l->tracepoints);
	free(l->demotions);
}

/* The next look, 50 ms later, at so many hits of each tracepoint. */
static void look_at(struct looked *l, uint64_t hits, double share)
{
	for (size_t i = 0; i < LOOKED_AT; i++)
		l->demotions[i].hits = hits;
	l->budget->look = span_of(share);
	budget_scale_spend(&l->budget->scale, &l->budget->look, NULL);
	budget_measure_look(l->session, l->budget, l->budget->measured + 50000000);
}

/* (U14) Looks before a change are compared with those after it: not with the one in which levels
 * changed, nor with one that counts what is off. */
static void test_looks_are_compared(void **state)
{
	struct looked l = make_looked();

	(void)state;
	look_at(&l, 1000, 0.2);
	look_at(&l, 1000, 0.2);
	l.tracepoints[0].level = SWITCH_OFF;
	budget_measure_change(l.session, l.budget, l.budget->measured);
	look_at(&l, 123456, 0.1);
	l.budget->peeks = true;
	look_at(&l, 654321, 0.1);
	l.budget->peeks = false;
	assert_false(l.budget->scale.is_measured);
	look_at(&l, 4000, 0.05); /* (1 - 4 * 0.05) / (1 - 4 * 0.2) */
	assert_true(l.budget->scale.is_measured);
	assert_true(l.budget->scale.scale > 3.8 && l.budget->scale.scale <= 4.01);
	assert_true(l.session->cost_measured);
	/* the hits before cost as much */
	assert_true(budget_scale_so_far(&l.budget->scale) == l.budget->scale.scale);
	free_looked(&l);
}

/* A change that nobody can judge in time is forgotten: the load is another one by then. */
static void test_an_old_change_is_forgotten(void **state)
{
	struct looked l = make_looked();

	(void)state;
	look_at(&l, 1000, 0.2);
	budget_measure_change(l.session, l.budget, l.budget->measured);
	look_at(&l, 1000, 0.2);
	l.budget->measured += 60ULL * 1000000000;
	look_at(&l, 4000, 0.05);
	assert_false(l.budget->scale.is_measured);
	free_looked(&l);
}

/* (U14) Samples tell what hits cost at least: without a change of levels, too. What the target gets
 * done tells more, as its own code is slower as well. */
/* Samples are taken now and then: meanwhile hits cost what the last samples told. */
static void test_times_without_samples(void **state)
{
	const struct budget_span span = { .cpu = 1e8, .cost = 1e7 };
	const struct budget_sample sample = { .share = 0.4, .inside = 160 };
	struct budget_scale scale;

	(void)state;
	budget_scale_init(&scale);
	budget_scale_spend(&scale, &span, NULL);
	assert_true(budget_scale_so_far(&scale) == 1);
	budget_scale_init(&scale);
	budget_scale_spend(&scale, &span, &sample);
	for (int i = 0; i < 19; i++)
		budget_scale_spend(&scale, &span, NULL);
	assert_true(budget_scale_so_far(&scale) > 3.99 && budget_scale_so_far(&scale) < 4.01);
}

static void test_samples_tell_the_least(void **state)
{
	const struct budget_span span = { .cpu = 1e8, .cost = 1e7 };
	const struct budget_sample few = { .share = 0.4, .inside = 10 };
	const struct budget_sample many = { .share = 0.4, .inside = 160 };
	const struct budget_sample later = { .share = 0.2, .inside = 80 };
	const struct budget_sample less = { .share = 0.02, .inside = 30 };
	struct budget_scale scale;

	(void)state;
	budget_scale_init(&scale);
	budget_scale_spend(&scale, &span, &few);
	assert_true(budget_scale_now(&scale) == 1);
	assert_true(budget_scale_so_far(&scale) > 3.99 && budget_scale_so_far(&scale) < 4.01);
	budget_scale_spend(&scale, &span, &many);
	assert_true(budget_scale_now(&scale) > 3.99 && budget_scale_now(&scale) < 4.01);
	assert_false(scale.is_measured);
	scale.scale = 6;
	assert_true(budget_scale_now(&scale) == 6);
	scale.scale = 1;
	for (int i = 0; i < 20; i++)
		budget_scale_spend(&scale, &span, &later);
	assert_true(budget_scale_now(&scale) > 1.9 && budget_scale_now(&scale) < 2.1);
	/* 2 of 22 spans cost four times as much */
	assert_true(budget_scale_so_far(&scale) > 2.17 && budget_scale_so_far(&scale) < 2.19);
	for (int i = 0; i < 60; i++)
		budget_scale_spend(&scale, &span, &less);
	assert_true(budget_scale_now(&scale) == 1);
	budget_scale_spend(&scale, &span, NULL);
	assert_true(budget_scale_now(&scale) == 1);
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
		cmocka_unit_test(test_out_expected),
		cmocka_unit_test(test_trampolines_are_timed),
		cmocka_unit_test(test_costs_fall_by_level),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_hits_get_no_cheaper),
		cmocka_unit_test(test_scale_is_found),
		cmocka_unit_test(test_scale_needs_evidence),
		cmocka_unit_test(test_scale_is_steady),
		cmocka_unit_test(test_looks_are_compared),
		cmocka_unit_test(test_an_old_change_is_forgotten),
		cmocka_unit_test(test_samples_tell_the_least),
		cmocka_unit_test(test_times_without_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
