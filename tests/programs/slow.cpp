/*
 * slow.cpp - calls of known order, some of them slow: `work` naps if its number divides by ten, `nested` at each third
 * level. `leaves` ends by an exception at every third number, `jumps` by a longjmp. Then threads, and a forked child.
 *
 * --nap US: how long (default: 0). --calls N: of work, per thread (default: 40). --stay: the last call doesn't return
 * before the test says so.
 */
#include <csetjmp>
#include <cstdio>
#include <pthread.h>
#include <stdexcept>
#include <sys/wait.h>
#include <time.h>

#include "handshake.h"

#define NOINLINE extern "C" __attribute__((noinline))

static long nap_us, calls;
static thread_local jmp_buf back;

static void nap(void)
{
	struct timespec time = { nap_us / 1000000, nap_us % 1000000 * 1000 };

	if (nap_us)
		nanosleep(&time, nullptr);
}

NOINLINE long work(int n, unsigned long size, const char *text)
{
	if (n % 10 == 0)
		nap();
	return n % 7 == 0 ? -n : (long)(size + (text[0] == 't'));
}

NOINLINE double scale(double x, int n)
{
	return x * n;
}

NOINLINE int nested(int depth)
{
	int inside = depth ? nested(depth - 1) + nested(depth - 1) : 0;

	if (depth && depth % 3 == 0)
		nap();
	return inside + 1;
}

NOINLINE int leaves(int n)
{
	if (n % 3 == 0)
		throw std::runtime_error("left");
	return n;
}

NOINLINE void jumps(int n)
{
	if (n % 2)
		longjmp(back, n);
}

NOINLINE int around(int n)
{
	try {
		return leaves(n);
	} catch (const std::exception &) {
		return -1;
	}
}

NOINLINE long rounds(long count)
{
	char text[16];
	long sum = 0;

	for (int n = 0; n < count; n++) {
		snprintf(text, sizeof(text), "text %d", n);
		sum += work(n, 100UL * (unsigned long)n, text);
		sum += (long)scale(n / 2.0, n);
		sum += around(n);
		if (!setjmp(back))
			jumps(n);
	}
	return sum + nested(6);
}

static void *run(void *)
{
	return (void *)rounds(calls);
}

NOINLINE void stays(int argc, char **argv, const char *why)
{
	if (why[0])
		handshake(argc, argv);
}

int main(int argc, char **argv)
{
	pthread_t threads[3];

	nap_us = handshake_option(argc, argv, "nap", 0);
	calls = handshake_option(argc, argv, "calls", 40);
	handshake(argc, argv);
	long sum = rounds(calls);
	for (pthread_t &thread : threads)
		if (pthread_create(&thread, nullptr, run, nullptr))
			return 3;
	for (pthread_t &thread : threads) {
		void *result;

		pthread_join(thread, &result);
		sum += (long)result;
	}
	pid_t child = fork();
	if (!child)
		_exit(rounds(calls) != sum / 4);
	int status = 1;
	waitpid(child, &status, 0);
	printf("%ld %d\n", sum, status);
	fflush(stdout);
	stays(argc, argv, handshake_option(argc, argv, "stay", 0) ? "wait" : "");
	return 0;
}
