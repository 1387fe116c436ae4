/*
 * prefork - a server that forks its workers once, early.
 *	prefork [--children C] [--calls N] [--rounds R]
 * "ready"; after "go" forks C children; "ready"; after each of R times "go" each child calls foo N
 * times, then the parent does; "ready" again. Children end with the parent.
 */
#include <sys/prctl.h>
#include <signal.h>

#include "foo.h"
#include "handshake.h"

#define CHILDREN_MAX 64

/* A byte asks for a round, a byte says that it is over. */
static void serve(int from, int to, long calls)
{
	char byte;

	while (read(from, &byte, 1) == 1) {
		foo_many(calls);
		if (write(to, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	long children = handshake_option(argc, argv, "children", 2),
	     calls = handshake_option(argc, argv, "calls", 100),
	     rounds = handshake_option(argc, argv, "rounds", 1);
	int ask[CHILDREN_MAX][2], answer[CHILDREN_MAX][2];
	char byte = 0;

	handshake(argc, argv);
	for (long i = 0; i < children && i < CHILDREN_MAX; i++) {
		if (pipe(ask[i]) || pipe(answer[i]))
			return 2;
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve(ask[i][0], answer[i][1], calls);
		}
	}
	for (long round = 0; round < rounds; round++) {
		handshake(argc, argv);
		for (long i = 0; i < children; i++)
			if (write(ask[i][1], &byte, 1) != 1 || read(answer[i][0], &byte, 1) != 1)
				return 3;
		foo_many(calls);
	}
	handshake(argc, argv);
	return 0;
}
