/*
 * held.c - held THREADS idle|busy: a process of many threads, one of which watches the clock.
 *
 * For each line of input it prints the times for which the watching thread was held since the line before, one line of
 * microseconds. Preemption isn't counted: a thread that ptrace stops gives up its processor by itself, as the kernel sees it.
 *
 * Busy threads leave the watching thread a processor of its own. Otherwise their time slices would be most of what it sees.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define GAP_NS 20000u /* shorter ones are interrupts */
#define GAPS_MAX 4096u
#define WORK_STEPS 10000 /* rarely in a probe: a thread that waits for its processor there would delay the removal */

static uint32_t gaps_us[GAPS_MAX];
static atomic_uint gap_count;

/* The function to probe. */
__attribute__((noipa, noinline)) void work(void)
{
	__asm__ volatile("" ::: "memory");
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static long waits(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

static void use_processor(int number, int count)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < count; i++)
		CPU_SET(number + i, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *watch(void *busy)
{
	/* this thread alone, if allowed: other work on the machine delays it less */
	setpriority(PRIO_PROCESS, 0, -20);
	if (busy)
		use_processor(0, 1);
	long before = waits();
	for (uint64_t last = now_ns();;) {
		uint64_t now = now_ns(), gap = now - last;

		last = now;
		if (gap < GAP_NS)
			continue;
		long after = waits();
		unsigned count = atomic_load_explicit(&gap_count, memory_order_relaxed);
		if (after != before && count < GAPS_MAX) {
			gaps_us[count] = (uint32_t)(gap / 1000);
			atomic_store_explicit(&gap_count, count + 1, memory_order_release);
		}
		before = after;
		last = now_ns();
	}
	return NULL;
}

static void *other(void *busy)
{
	while (!busy)
		pause();
	use_processor(1, (int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
	for (;; work()) {
		for (volatile int i = 0; i < WORK_STEPS; i++)
			;
	}
	return NULL;
}

static void begin(void *(*function)(void *), void *argument)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, function, argument))
		exit(1);
}

int main(int argc, char **argv)
{
	char line[16];
	unsigned printed = 0;

	if (argc != 3 || sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return 2;
	void *busy = strcmp(argv[2], "busy") ? NULL : line;
	begin(watch, busy);
	for (int i = 2; i < atoi(argv[1]); i++)
		begin(other, busy);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned count = atomic_load_explicit(&gap_count, memory_order_acquire);

		for (; printed < count; printed++)
			printf("%u ", gaps_us[printed]);
		printf("\n");
		fflush(stdout);
	}
	return 0;
}
