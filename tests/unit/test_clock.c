/* The clock: estimates of its rate and offset. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <cmocka.h>

#include "../../src/control/ctf/clock.h"
#include "place.h"

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
	uint64_t first = ns_of(&clock, clock.first.tsc);
	assert_in_range(first, clock.first.wall_ns - 1, clock.first.wall_ns + 1);
}

/* A TSC value between two looks at the wall clock lies between them: 20 ppm of the little time
 * since, and what an interruption of the calibration costs. */
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

/* ---- an hour in no time ---------------------------------------------------------------------- */

#define NS_PER_S 1000000000LL
#define HOUR 3600
#define REAL_HZ 2445432109.0

/* A machine: its wall clock against the time that passes. */
struct machine {
	double seconds; /* since it was started */
	double slew; /* parts per million by which the wall clock is too fast now */
	double wall; /* ns, relative */
	double crystal; /* ppm: what MONOTONIC_RAW is off by */
	double noise_ns; /* of a reading, at most */
	uint64_t random;
};

static const uint64_t epoch = 1700000000ULL * 1000000000ULL, tsc_zero = 98765432123ULL;

static void pass(struct machine *machine, double seconds)
{
	machine->seconds += seconds;
	machine->wall += seconds * 1e9 * (1 + machine->slew / 1e6);
}

static double noise(struct machine *machine)
{
	machine->random = machine->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return machine->noise_ns * ((double)(machine->random >> 33) / 2147483648.0 - 0.5);
}

static struct clock_reading look(struct machine *machine)
{
	return (struct clock_reading){
		.tsc = tsc_zero + (uint64_t)(machine->seconds * REAL_HZ),
		.raw_tsc = tsc_zero + (uint64_t)(machine->seconds * REAL_HZ),
		.wall_ns = epoch + (uint64_t)(machine->wall + noise(machine) + 1e6),
		.raw_ns = (uint64_t)(machine->seconds * 1e9 * (1 + machine->crystal / 1e6) +
				     noise(machine) + 1e6),
	};
}

static void begin(struct machine *machine, struct clock_estimate *clock)
{
	struct clock_reading first = look(machine);

	pass(machine, 0.02);
	struct clock_reading second = look(machine);
	clock_begin(clock, &first, &second);
}

/* The pauses of recording.c: one second, two, four, up to a minute. At each the time of now is
 * right. */
static void record(struct machine *machine, struct clock_estimate *clock, double until,
		   double off_ns)
{
	double pause = 1;

	for (; machine->seconds < until; pause = pause < 30 ? pause * 2 : 60) {
		pass(machine, pause);
		struct clock_reading now = look(machine);
		clock_note(clock, &now);
		double apart = (double)ns_of(clock, now.tsc) - (double)now.wall_ns + off_ns;
		assert_true(fabs(apart) < 100000);
		apart = (double)ns_of(clock, clock->first.tsc) - (double)clock->first.wall_ns;
		assert_true(fabs(apart) < 1000);
	}
}

/* A crystal that is 40 ppm off, and NTP that follows it, slews to and fro, or does nothing. */
static void test_drift(void **unused)
{
	static const double slews[][4] = { { 0, 0, 0, 0 },	     { 40, 40, 40, 40 },
					   { 500, 500, 500, 500 },   { -500, -500, -500, -500 },
					   { 500, -500, 500, -500 }, { 0, 0, 0, 500 } };

	for (size_t i = 0; i < sizeof(slews) / sizeof(slews[0]); i++) {
		struct machine machine = { .crystal = 40, .noise_ns = 20000, .random = i };
		struct clock_estimate clock;

		machine.slew = slews[i][0];
		begin(&machine, &clock);
		for (int quarter = 0; quarter < 4; quarter++) {
			machine.slew = slews[i][quarter];
			record(&machine, &clock, HOUR * (quarter + 1) / 4.0, 0);
		}
		assert_int_equal(clock.set_ns, 0);
	}
}

/* Steps, small and large, early and late: the trace stays on the time it began with, to a
 * millisecond, and its frequency right. */
static void test_steps(void **unused)
{
	static const double steps[] = { 0.2, -0.2, 1, -1, 3600, -3600, 86400.0 * 365, 0.128 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (double when = 1; when < HOUR; when *= 7) {
			struct machine machine = {
				.crystal = -30, .slew = 20, .noise_ns = 20000, .random = i
			};
			struct clock_estimate clock;

			begin(&machine, &clock);
			record(&machine, &clock, when, 0);
			machine.wall += steps[i] * 1e9;
			record(&machine, &clock, HOUR, steps[i] * 1e9);
			assert_true(fabs((double)clock.frequency / (REAL_HZ / 1.00002) - 1) < 1e-6);
		}
	}
}

/* The machine slept, or moved to another, and its TSC began anew: what was known stays. */
static void test_tsc_reset(void **unused)
{
	struct machine machine = { .noise_ns = 20000 };
	struct clock_estimate clock;

	begin(&machine, &clock);
	record(&machine, &clock, 100, 0);
	struct clock_estimate before = clock;
	struct clock_reading reading = look(&machine);
	reading.tsc = 12345;
	reading.wall_ns += 8 * HOUR * NS_PER_S;
	clock_note(&clock, &reading);
	assert_memory_equal(&clock, &before, sizeof(clock));
}

static void test_negative_offset(void **unused)
{
	/* A machine whose wall clock starts at 0 and whose TSC is older than that. */
	struct clock_reading first = {
		.tsc = 90000000000000ULL, .wall_ns = NS_PER_S, .raw_tsc = 100, .raw_ns = 5
	};
	struct clock_reading second = { .tsc = first.tsc + 2000000000,
					.wall_ns = 2 * NS_PER_S,
					.raw_tsc = 2000000100,
					.raw_ns = NS_PER_S + 5 };
	struct clock_estimate clock;

	clock_begin(&clock, &first, &second);
	assert_int_equal(clock.frequency, 2000000000);
	assert_true(clock.offset_s < 0);
	assert_true(clock.offset < clock.frequency);
	assert_in_range(ns_of(&clock, first.tsc), first.wall_ns - 1, first.wall_ns + 1);
}

/* ---- which clock ----------------------------------------------------------------------------- */

static bool trusted(const char *sources)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/dyntrace-clock-XXXXXX", place_disk());
	int fd = mkstemp(path);

	assert_true(fd >= 0 && write(fd, sources, strlen(sources)) == (ssize_t)strlen(sources));
	close(fd);
	bool result = clock_tsc_trusted(path);
	unlink(path);
	return result;
}

static void test_trust(void **unused)
{
	assert_true(trusted("tsc hpet acpi_pm \n"));
	assert_true(trusted("kvm-clock tsc acpi_pm\n"));
	assert_false(trusted("hpet acpi_pm \n"));
	assert_false(trusted("kvm-clock hyperv_clocksource_tsc_page \n"));
	assert_true(clock_tsc_trusted("/nowhere/at/all"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_reading_is_exact),
		cmocka_unit_test(test_now_is_now),
		cmocka_unit_test(test_drift),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_tsc_reset),
		cmocka_unit_test(test_negative_offset),
		cmocka_unit_test(test_trust),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
