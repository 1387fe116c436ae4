/*
 * burst - a target that is busy, then nearly idle, for budgets of what tracing costs.
 *
 * --readings N: each call of `often` reads the clock so many times, so what a hit costs compared
 * with the call is the same on every machine. `seldom` is called once for 1,000 of those. The
 * program is busy from the first handshake's go until there is something to read from the go-fd,
 * then calls `often` 100 times per second until the next. At the end it prints how often each
 * function was called.
 */
#include <poll.h>
#include <time.h>
#include <x86intrin.h>

#include "handshake.h"

static volatile uint64_t sink;
static unsigned long often_calls, seldom_calls;

__attribute__((noinline)) uint64_t often(long readings);
__attribute__((noinline)) uint64_t seldom(long x);

uint64_t often(long readings)
{
	uint64_t sum = 0;

	for (long i = 0; i < readings; i++)
		sum += __rdtsc();
	return sum;
}

uint64_t seldom(long x)
{
	return sink + (uint64_t)x;
}

static int is_told(int go)
{
	struct pollfd fd = { .fd = go, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static void run(long readings)
{
	sink += often(readings);
	often_calls++;
}

int main(int argc, char **argv)
{
	long readings = handshake_option(argc, argv, "readings", 40);
	int go = (int)handshake_option(argc, argv, "go-fd", -1);

	handshake(argc, argv);
	while (!is_told(go)) {
		for (int i = 0; i < 1000; i++)
			run(readings);
		sink += seldom(1);
		seldom_calls++;
	}
	handshake(argc, argv);
	while (!is_told(go)) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		run(readings);
	}
	printf("%lu %lu\n", often_calls, seldom_calls);
	return 0;
}
