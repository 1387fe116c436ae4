/*
 * execer - a process with threads that begins another program (itself) again and again, from any of its threads.
 *	execer [--rounds R]
 * Ends with status 0 after R rounds, "ready" before the first.
 */
#include <pthread.h>
#include <sched.h>

#include "handshake.h"

static char **arguments;
static char left[16];

static void *spin(void *data)
{
	for (;;)
		sched_yield();
	return NULL;
}

static void *exec_again(void *data)
{
	/* the same words, but for the number of rounds */
	for (int i = 1; arguments[i]; i++)
		if (!strcmp(arguments[i], "--rounds"))
			arguments[i + 1] = left;
	execv("/proc/self/exe", arguments);
	_exit(1);
}

int main(int argc, char **argv)
{
	long rounds = handshake_option(argc, argv, "rounds", 100);
	pthread_t threads[6];

	if (getenv("EXECER_AGAIN") == NULL) {
		setenv("EXECER_AGAIN", "1", 1);
		handshake(argc, argv);
	}
	if (rounds == 0)
		return 0;
	snprintf(left, sizeof(left), "%ld", rounds - 1);
	arguments = argv;
	for (int i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, i == rounds % 7 ? exec_again : spin, NULL);
	if (rounds % 7 == 6)
		exec_again(NULL);
	for (;;)
		sched_yield();
}
