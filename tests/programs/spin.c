/*
 * spin - threads that call foo.
 *	spin [--threads T] [--calls N] [--rounds R]
 * All threads exist before "ready". After each of R times "go" each calls foo N times; "ready"
 * again when all have. Prints "TID CALLS" for each thread at the end; the first is main's own.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "foo.h"
#include "handshake.h"

static long calls, rounds;
static pthread_barrier_t barrier;

struct spinner {
	pthread_t thread;
	long tid, done;
};

static void spin_round(struct spinner *self)
{
	pthread_barrier_wait(&barrier);
	foo_many(calls);
	self->done += calls;
	pthread_barrier_wait(&barrier);
}

static void *spin(void *data)
{
	struct spinner *self = data;

	self->tid = syscall(SYS_gettid);
	pthread_barrier_wait(&barrier); /* all are there */
	for (long round = 0; round < rounds; round++)
		spin_round(self);
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = handshake_option(argc, argv, "threads", 1);

	calls = handshake_option(argc, argv, "calls", 1000);
	rounds = handshake_option(argc, argv, "rounds", 1);
	if (threads < 1 || pthread_barrier_init(&barrier, NULL, (unsigned int)threads))
		return 2;
	struct spinner *spinners = calloc((size_t)threads, sizeof(*spinners));
	if (!spinners)
		return 2;
	for (long i = 1; i < threads; i++)
		if (pthread_create(&spinners[i].thread, NULL, spin, &spinners[i]))
			return 2;
	spinners[0].tid = syscall(SYS_gettid);
	pthread_barrier_wait(&barrier);
	for (long round = 0; round < rounds; round++) {
		handshake(argc, argv);
		spin_round(&spinners[0]);
	}
	handshake(argc, argv);
	for (long i = 1; i < threads; i++)
		pthread_join(spinners[i].thread, NULL);
	for (long i = 0; i < threads; i++)
		printf("%ld %ld\n", spinners[i].tid, spinners[i].done);
	free(spinners);
	return 0;
}
