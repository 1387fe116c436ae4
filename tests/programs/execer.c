/*
 * execer - a process with threads that executes itself again and again, from any of its threads.
 *	execer [--rounds R] [--lockstep 1] [--headless 1]
 * Ends with status 0 after R rounds, "ready" before the first; in lockstep before each, in the
 * thread that is about to begin the next. Headless: the first thread has ended by then.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "handshake.h"

static int argument_count;
static char **arguments;
static char left[16];
static long lockstep, headless;

static void *spin(void *data)
{
	for (;;)
		sched_yield();
	return NULL;
}

static void *exec_again(void *data)
{
	while (headless && !handshake_leader_has_ended())
		sched_yield();
	if (lockstep)
		handshake(argument_count, arguments);
	/* the same words, but for the number of rounds */
	for (int i = 1; arguments[i]; i++)
		if (!strcmp(arguments[i], "--rounds"))
			arguments[i + 1] = left;
	execv("/proc/thread-self/exe", arguments);
	_exit(1);
}

int main(int argc, char **argv)
{
	long rounds = handshake_option(argc, argv, "rounds", 100);
	pthread_t threads[6];

	argument_count = argc;
	arguments = argv;
	lockstep = handshake_option(argc, argv, "lockstep", 0);
	headless = handshake_option(argc, argv, "headless", 0);
	if (!lockstep && getenv("EXECER_AGAIN") == NULL) {
		setenv("EXECER_AGAIN", "1", 1);
		handshake(argc, argv);
	}
	if (rounds == 0)
		return 0;
	snprintf(left, sizeof(left), "%ld", rounds - 1);
	long from = rounds % (headless ? 6 : 7); /* 6: the first thread */
	for (int i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, i == from ? exec_again : spin, NULL);
	if (from == 6)
		exec_again(NULL);
	if (headless)
		syscall(SYS_exit, 0); /* this thread only */
	for (;;)
		sched_yield();
}
