/*
 * spaces - processes that fork into pid namespaces of their own. Needs root.
 *	spaces [--children C] [--deep 1] [--threads T] [--bursts B] [--calls N]
 * C times: forks a process that enters a new pid namespace and forks its first process; with --deep
 * that one forks another, and calls nothing itself. T threads of each call foo N times, B times,
 * with naps, and stay until the next "go" after that. Prints "CALLS" of all when all have ended.
 * Fails if one does.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "foo.h"
#include "handshake.h"

static long threads, bursts, calls, deep;
static struct {
	atomic_long worked; /* threads */
	atomic_int is_over; /* all may end */
} *shared;

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void *work(void *data)
{
	for (long i = 0; i < bursts; i++) {
		foo_many(calls);
		nap();
	}
	atomic_fetch_add(&shared->worked, 1);
	while (!atomic_load(&shared->is_over))
		nap();
	return NULL;
}

static int work_all(void)
{
	pthread_t others[16];

	for (long i = 1; i < threads && i < 16; i++)
		if (pthread_create(&others[i], NULL, work, NULL))
			return 2;
	work(NULL);
	for (long i = 1; i < threads && i < 16; i++)
		pthread_join(others[i], NULL);
	return 0;
}

static int await(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 2;
	if (status)
		fprintf(stderr, "spaces: a child ended with status %x\n", (unsigned)status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static int begin_inside(long levels)
{
	if (!levels)
		return work_all();
	pid_t child = fork();
	if (child == 0)
		_exit(begin_inside(levels - 1));
	return child < 0 ? 2 : await(child);
}

static pid_t begin(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(unshare(CLONE_NEWPID) ? 2 : begin_inside(deep ? 2 : 1));
	return child;
}

int main(int argc, char **argv)
{
	long children = handshake_option(argc, argv, "children", 2);
	pid_t pids[64];
	int failed = 0;

	deep = handshake_option(argc, argv, "deep", 0);
	threads = handshake_option(argc, argv, "threads", 2);
	bursts = handshake_option(argc, argv, "bursts", 1);
	calls = handshake_option(argc, argv, "calls", 100);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 2;
	handshake(argc, argv);
	for (long i = 0; i < children && i < 64; i++)
		pids[i] = begin();
	while (atomic_load(&shared->worked) < children * threads)
		nap();
	handshake(argc, argv);
	atomic_store(&shared->is_over, 1);
	for (long i = 0; i < children && i < 64; i++)
		failed |= pids[i] < 0 || await(pids[i]);
	handshake(argc, argv);
	printf("%ld\n", children * threads * bursts * calls);
	return failed;
}
