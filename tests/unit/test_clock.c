#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

#include <cmocka.h>

#include "../../src/control/ctf/clock.h"

static uint64_t wall_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* As a reader of the trace computes it. */
static uint64_t ns_of(const struct clock_estimate *clock, uint64_t tsc)
{
	__int128 cycles = (__int128)clock->offset + tsc;

	return (uint64_t)((__int128)clock->offset_s * 1000000000 +
			  cycles * 1000000000 / clock->frequency);
}

static void test_first_reading_is_exact(void **unused)
{
	struct clock_estimate clock;

	clock_start(&clock);
	assert_in_range(clock.frequency, 100000000, 10000000000);
	assert_true(clock.offset < clock.frequency);
	uint64_t first = ns_of(&clock, clock.first_tsc);
	assert_in_range(first, clock.first_ns - 1, clock.first_ns + 1);
}

/* A TSC value between two looks at the wall clock lies between them: 20 ppm of the little time since, and what an
 * interruption of the calibration costs. */
static void test_now_is_now(void **unused)
{
	struct clock_estimate clock;

	clock_start(&clock);
	clock_refine(&clock);
	uint64_t before = wall_ns();
	uint64_t tsc = __rdtsc();
	uint64_t after = wall_ns();
	assert_in_range(ns_of(&clock, tsc), before - 100000, after + 100000);
}

/* The first reading is changed, as if the wall clock had been set since. */
static void test_wall_clock_set(void **unused)
{
	struct clock_estimate clock;

	clock_start(&clock);
	uint64_t frequency = clock.frequency;
	clock.first_ns -= 3600ULL * 1000000000;
	clock_refine(&clock);
	/* The wall clock went an hour ahead in 20 ms: not believed. */
	double ratio = (double)clock.frequency / (double)frequency;
	assert_true(fabs(ratio - 1) < 0.01);
	uint64_t first = ns_of(&clock, clock.first_tsc);
	assert_in_range(first, clock.first_ns - 1, clock.first_ns + 1);
	/* It went back. */
	clock.first_ns += 7200ULL * 1000000000;
	clock_refine(&clock);
	ratio = (double)clock.frequency / (double)frequency;
	assert_true(fabs(ratio - 1) < 0.01);
}

static void test_negative_offset(void **unused)
{
	struct clock_estimate clock;

	/* A machine whose wall clock starts at 0 and whose TSC is older than that. */
	clock_start(&clock);
	uint64_t shift = clock.first_ns - 1000000000;
	clock.first_ns -= shift;
	clock_refine(&clock);
	assert_true(clock.offset_s < 0);
	assert_true(clock.offset < clock.frequency);
	uint64_t first = ns_of(&clock, clock.first_tsc);
	assert_in_range(first, clock.first_ns - 1, clock.first_ns + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_reading_is_exact),
		cmocka_unit_test(test_now_is_now),
		cmocka_unit_test(test_wall_clock_set),
		cmocka_unit_test(test_negative_offset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
