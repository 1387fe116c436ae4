/*
 * standstill.c - a thread that can't be stopped for a while: it is in vfork, whose child lives
 * until "go".
 *
 *	standstill --rounds N	per round: calls foo and bar, stands still, calls them again
 *
 * Prints, at the end, how often each was called.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handshake.h"

#define CALLS 100

static int ready_fd, go_fd;
static long foo_calls, bar_calls;
static char stack[65536] __attribute__((aligned(16)));

__attribute__((noinline)) void foo(void)
{
	__asm__ volatile("" ::: "memory");
	foo_calls++;
}

__attribute__((noinline)) void bar(void)
{
	__asm__ volatile("" ::: "memory");
	bar_calls++;
}

/* Its parent's thread waits in the kernel until it ends. */
static int child(void *data)
{
	char byte;

	if (write(ready_fd, "r", 1) != 1 || read(go_fd, &byte, 1) != 1)
		_exit(1);
	_exit(0);
}

static void stand_still(void)
{
	int pid = clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	long rounds = handshake_option(argc, argv, "rounds", 1);

	ready_fd = (int)handshake_option(argc, argv, "ready-fd", 1);
	go_fd = (int)handshake_option(argc, argv, "go-fd", 0);
	handshake(argc, argv); /* free: it can be stopped */
	for (long i = 0; i < rounds; i++) {
		for (int j = 0; j < CALLS; j++) {
			foo();
			bar();
		}
		stand_still();
		for (int j = 0; j < CALLS; j++) {
			foo();
			bar();
		}
		handshake(argc, argv);
	}
	printf("%ld %ld\n", foo_calls, bar_calls);
	return 0;
}
