/*
 * churn - threads that come and go.
 *	churn [--rounds R] [--threads T] [--calls N]
 * R times: starts T threads, each of which calls foo N times and ends. Prints "TID CALLS" for each
 * of the R * T threads; a tid may come again.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "foo.h"
#include "handshake.h"

static long calls;

static void *work(void *data)
{
	foo_many(calls);
	*(long *)data = syscall(SYS_gettid);
	return NULL;
}

/* true: all were started and have ended. */
static int run_round(pthread_t *threads, long *tids, long count)
{
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, &tids[i]))
			return 0;
	for (long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 1;
}

int main(int argc, char **argv)
{
	long rounds = handshake_option(argc, argv, "rounds", 10);
	long count = handshake_option(argc, argv, "threads", 2);
	pthread_t *threads = calloc((size_t)count, sizeof(*threads));
	long *tids = calloc((size_t)(rounds * count), sizeof(*tids));

	calls = handshake_option(argc, argv, "calls", 10);
	if (!threads || !tids)
		return 2;
	handshake(argc, argv);
	for (long round = 0; round < rounds; round++)
		if (!run_round(threads, tids + round * count, count))
			return 2;
	handshake(argc, argv);
	for (long i = 0; i < rounds * count; i++)
		printf("%ld %ld\n", tids[i], calls);
	free(threads);
	free(tids);
	return 0;
}
