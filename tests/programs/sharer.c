/*
 * sharer - processes that share memory without being threads.
 *	sharer --vfork 0	a child made with clone(CLONE_VM) counts for ever in shared memory
 *	sharer --late 1		the same, but the child is made at a first "go"
 *	sharer --vfork 1	a thread is in vfork until "go", when the child ends
 * Prints the child's pid and the address of the counter first.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "handshake.h"

static volatile unsigned long counter;
static char stack[65536] __attribute__((aligned(16)));
static int go_fd;

static int count(void *data)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		counter++;
	return 0;
}

static int await_go(void *data)
{
	char byte;

	counter = 1;
	while (read(go_fd, &byte, 1) < 0)
		;
	_exit(0);
}

static void *vfork_thread(void *data)
{
	clone(await_go, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	go_fd = (int)handshake_option(argc, argv, "go-fd", 0);
	if (handshake_option(argc, argv, "vfork", 0)) {
		pthread_create(&thread, NULL, vfork_thread, NULL);
		while (!counter)
			sched_yield();
		if (write((int)handshake_option(argc, argv, "ready-fd", 1), "r", 1) != 1)
			return 2;
		pthread_join(thread, NULL);
		handshake(argc, argv);
		return 0;
	}
	if (handshake_option(argc, argv, "late", 0))
		handshake(argc, argv);
	int pid = clone(count, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	printf("%d %p\n", pid, (void *)&counter);
	fflush(stdout);
	handshake(argc, argv);
	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0) == pid ? 0 : 1;
}
