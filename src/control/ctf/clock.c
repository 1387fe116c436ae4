#include "clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "../base/cleanup.h"

#define NS_PER_S 1000000000ULL
#define CLOCK_FIRST_SPAN_NS 20000000L
#define CLOCK_TRIES 16
/* NTP slews by 500 ppm at most; beyond twice that the wall clock was set. */
#define CLOCK_SLEW_PER_MILLION 1000

/* One clock and the TSC at the same moment: the narrowest of some tries. */
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

static bool clock_was_set(uint64_t wall, uint64_t steady)
{
	uint64_t apart = wall > steady ? wall - steady : steady - wall;

	return apart > steady / 1000000 * CLOCK_SLEW_PER_MILLION;
}

/* The first reading stays where it is, whatever the frequency turns out to be. */
static void clock_place(struct clock_estimate *clock)
{
	__int128 cycles = (__int128)clock->first_ns * clock->frequency / NS_PER_S;
	__int128 zero = cycles - clock->first_tsc;
	__int128 seconds = zero / clock->frequency;

	if (seconds * clock->frequency > zero)
		seconds--;
	clock->offset_s = (int64_t)seconds;
	clock->offset = (uint64_t)(zero - seconds * clock->frequency);
}

void clock_refine(struct clock_estimate *clock)
{
	uint64_t raw_tsc = 0;

	/* Each clock has its own reading of the TSC: between the two this thread may have waited for a CPU. */
	clock_read(CLOCK_MONOTONIC_RAW, &raw_tsc, &clock->last_raw);
	clock_read(CLOCK_REALTIME, &clock->last_tsc, &clock->last_ns);

	if (clock->last_tsc <= clock->first_tsc) /* it was reset: the machine slept, or moved */
		return;
	uint64_t cycles = clock->last_tsc - clock->first_tsc;
	uint64_t steady = clock_frequency(raw_tsc - clock->first_raw_tsc, clock->last_raw - clock->first_raw);
	uint64_t wall = clock->last_ns > clock->first_ns ?
				clock_frequency(cycles, clock->last_ns - clock->first_ns) :
				0;
	uint64_t frequency = clock_was_set(wall, steady) ? steady : wall;
	if (!frequency)
		return;
	clock->frequency = frequency;
	clock_place(clock);
}

void clock_start(struct clock_estimate *clock)
{
	struct timespec span = { .tv_nsec = CLOCK_FIRST_SPAN_NS };

	memset(clock, 0, sizeof(*clock));
	clock->frequency = NS_PER_S;
	clock_read(CLOCK_MONOTONIC_RAW, &clock->first_raw_tsc, &clock->first_raw);
	clock_read(CLOCK_REALTIME, &clock->first_tsc, &clock->first_ns);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
	clock_refine(clock);
}

/* The kernel takes "tsc" off the list when its watchdog finds it unstable. */
bool clock_tsc_trusted(void)
{
	_cleanup_fclose_ FILE *file =
		fopen("/sys/devices/system/clocksource/clocksource0/available_clocksource", "re");
	char line[256] = "";

	if (!file || !fgets(line, sizeof(line), file))
		return true; /* no /sys here: nothing says otherwise */
	for (char *rest = line, *word; (word = strtok_r(rest, " \n", &rest));) {
		if (!strcmp(word, "tsc"))
			return true;
	}
	return false;
}
