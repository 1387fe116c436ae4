/*
 * calls - THREADS threads that make LOOPS times the same tree of calls: top_ calls mid, which calls
 * leaf three times, and rec, which calls itself up to three levels deep.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTION __attribute__((noinline, noipa)) long

#define THREADS_MAX 64

FUNCTION leaf(long n, const char *text)
{
	return n + text[0];
}

FUNCTION mid(long n)
{
	long sum = 0;

	for (int i = 0; i < 3; i++)
		sum += leaf(n + i, "hello");
	return sum;
}

FUNCTION rec(long n)
{
	return n ? rec(n - 1) + leaf(n, "in rec") : 1;
}

FUNCTION top_(long n)
{
	return mid(n) + rec(n % 4);
}

static void *run(void *loops)
{
	long sum = 0;

	for (long i = 0; i < (long)loops; i++)
		sum += top_(i);
	return (void *)sum;
}

int main(int argc, char **argv)
{
	long loops = argc > 1 ? atol(argv[1]) : 1;
	int count = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t threads[THREADS_MAX];

	for (int i = 0; i < count && i < THREADS_MAX; i++)
		pthread_create(&threads[i], NULL, run, (void *)loops);
	for (int i = 0; i < count && i < THREADS_MAX; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
