#include "clock.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "control/base/cleanup.h"

#define NS_PER_S 1000000000ULL
#define CLOCK_FIRST_SPAN_NS 20000000L
#define CLOCK_TRIES 16
/* NTP slews by 500 ppm at most; beyond twice that the wall clock was set. */
#define CLOCK_SLEW_PER_MILLION 1000
#define CLOCK_NOISE_NS 500000 /* error of an interrupted reading */
#define CLOCK_SOURCES "/sys/devices/system/clocksource/clocksource0/available_clocksource"

/* Reads one clock and the TSC at the same moment: takes the narrowest of some tries. */
static void clock_read(clockid_t id, uint64_t *ret_tsc, uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CLOCK_TRIES; i++) {
		struct timespec time;
		uint64_t before = __rdtsc();

		clock_gettime(id, &time);
		uint64_t width = __rdtsc() - before;
		if (width >= best)
			continue;
		best = width;
		*ret_tsc = before + width / 2;
		*ret_ns = (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
	}
}

static uint64_t clock_frequency(uint64_t cycles, uint64_t ns)
{
	if (!ns)
		return 0;
	return (uint64_t)(((unsigned __int128)cycles * NS_PER_S + ns / 2) / ns);
}

/*
 * The wall clock's deviation since the last reading, if it is more than NTP's slewing; else 0.
 * Compares with the TSC, whose frequency is known well enough from the first reading on: unlike
 * CLOCK_MONOTONIC_RAW it may go on while the machine sleeps.
 */
static int64_t clock_find_set(const struct clock_estimate *clock, const struct clock_reading *now)
{
	assert(clock->frequency && now->tsc >= clock->last.tsc);
	int64_t expected = (int64_t)((unsigned __int128)(now->tsc - clock->last.tsc) * NS_PER_S /
				     clock->frequency);
	int64_t apart = (int64_t)(now->wall_ns - clock->last.wall_ns) - expected;
	int64_t slewed = expected / 1000000 * CLOCK_SLEW_PER_MILLION + CLOCK_NOISE_NS;

	return apart > slewed || apart < -slewed ? apart : 0;
}

/* Sets the offsets so that the first reading keeps its wall-clock time, whatever the frequency. */
static void clock_place(struct clock_estimate *clock)
{
	assert(clock->frequency);
	__int128 cycles = (__int128)clock->first.wall_ns * clock->frequency / NS_PER_S;
	__int128 zero = cycles - clock->first.tsc;
	__int128 seconds = zero / clock->frequency;

	if (seconds * clock->frequency > zero)
		seconds--;
	clock->offset_s = (int64_t)seconds;
	clock->offset = (uint64_t)(zero - seconds * clock->frequency);
	assert(clock->offset < clock->frequency);
}

void clock_note(struct clock_estimate *clock, const struct clock_reading *reading)
{
	if (reading->tsc <= clock->last.tsc) /* the TSC was reset: the machine slept, or moved */
		return;
	clock->set_ns += clock_find_set(clock, reading);
	clock->last = *reading;
	int64_t span = (int64_t)(reading->wall_ns - clock->first.wall_ns) - clock->set_ns;
	uint64_t frequency =
		span > 0 ? clock_frequency(reading->tsc - clock->first.tsc, (uint64_t)span) : 0;
	if (!frequency)
		return;
	clock->frequency = frequency;
	clock_place(clock);
}

/* Takes the first frequency from CLOCK_MONOTONIC_RAW, which nobody sets. */
void clock_begin(struct clock_estimate *clock, const struct clock_reading *first,
		 const struct clock_reading *second)
{
	*clock = (struct clock_estimate){ .frequency = NS_PER_S, .first = *first, .last = *first };
	uint64_t frequency = second->raw_tsc > first->raw_tsc && second->raw_ns > first->raw_ns ?
				     clock_frequency(second->raw_tsc - first->raw_tsc,
						     second->raw_ns - first->raw_ns) :
				     0;
	if (frequency)
		clock->frequency = frequency;
	clock_place(clock);
	clock_note(clock, second);
}

static struct clock_reading clock_now(void)
{
	struct clock_reading reading = { 0 };

	clock_read(CLOCK_MONOTONIC_RAW, &reading.raw_tsc, &reading.raw_ns);
	clock_read(CLOCK_REALTIME, &reading.tsc, &reading.wall_ns);
	return reading;
}

void clock_refine(struct clock_estimate *clock)
{
	struct clock_reading now = clock_now();

	clock_note(clock, &now);
}

void clock_start(struct clock_estimate *clock)
{
	struct timespec span = { .tv_nsec = CLOCK_FIRST_SPAN_NS };
	struct clock_reading first = clock_now();

	clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
	struct clock_reading second = clock_now();
	clock_begin(clock, &first, &second);
}

/* By way of a double, each of the two for itself, as libbabeltrace2 does. */
static int64_t cycles_to_ns(const struct clock_estimate *clock, uint64_t cycles)
{
	if (clock->frequency == NS_PER_S)
		return (int64_t)cycles;
	return (int64_t)((double)cycles * 1e9 / (double)clock->frequency);
}

int64_t clock_wall_ns(const struct clock_estimate *clock, uint64_t tsc)
{
	return clock->offset_s * (int64_t)NS_PER_S + cycles_to_ns(clock, clock->offset) +
	       cycles_to_ns(clock, tsc);
}

/* The kernel takes "tsc" off the list when its watchdog finds it unstable. */
bool clock_tsc_trusted(const char *path)
{
	_cleanup_fclose_ FILE *file = fopen(path ? path : CLOCK_SOURCES, "re");
	char line[256] = "";

	if (!file || !fgets(line, sizeof(line), file))
		return true; /* without /sys nothing speaks against it */
	for (char *rest = line, *word; (word = strtok_r(rest, " \n", &rest));) {
		if (!strcmp(word, "tsc"))
			return true;
	}
	return false;
}
