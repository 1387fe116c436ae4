/*
 * forker - processes that fork.
 *	forker [--children C] [--calls N]
 * Calls foo N times, forks C children, each of which calls foo N times and ends, and calls foo N
 * times again when all have. Prints "PID CALLS" for itself and each child. Fails if a child does.
 */
#include <sys/wait.h>

#include "foo.h"
#include "handshake.h"

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
	long children = handshake_option(argc, argv, "children", 2);
	long calls = handshake_option(argc, argv, "calls", 100);
	pid_t *pids = calloc((size_t)children, sizeof(*pids));
	int good = 1;

	if (!pids)
		return 2;
	handshake(argc, argv);
	foo_many(calls);
	for (long i = 0; i < children; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			foo_many(calls);
			_exit(0);
		}
	}
	for (long i = 0; i < children; i++)
		good &= pids[i] > 0 && wait_for(pids[i]);
	foo_many(calls);
	handshake(argc, argv);
	printf("%d %ld\n", getpid(), 2 * calls);
	for (long i = 0; i < children; i++)
		printf("%d %ld\n", pids[i], calls);
	free(pids);
	return good ? 0 : 1;
}
