/*
 * headless - a process whose first thread has ended.
 *	headless
 * "ready" when the leader is a zombie; the other thread ends the process, status 7, after "go".
 */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "handshake.h"

static int argument_count;
static char **arguments;

static void *survive(void *data)
{
	while (!handshake_leader_has_ended())
		sched_yield();
	handshake(argument_count, arguments);
	exit(7);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	argument_count = argc;
	arguments = argv;
	pthread_create(&thread, NULL, survive, NULL);
	syscall(SYS_exit, 0); /* this thread only */
	return 1;
}
