/*
 * linked - a program that has the agent from its first instruction on.
 *	linked [--calls N]
 * Calls foo N times, before anybody could attach, prints "PID CALLS", and then waits (handshake).
 * It is linked with the agent.
 */
#include "foo.h"
#include "handshake.h"

int main(int argc, char **argv)
{
	long calls = handshake_option(argc, argv, "calls", 100);

	foo_many(calls);
	printf("%d %ld\n", getpid(), calls);
	fflush(stdout);
	handshake(argc, argv);
	return 0;
}
