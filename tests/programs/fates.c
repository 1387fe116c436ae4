/*
 * fates - a process that calls foo and then meets its fate.
 *	fates --fate N [--calls N]
 * Calls foo N times, does what the number says (the table at the end), which may call foo N times
 * again, and prints nothing: the test knows how often foo is called, and by which processes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "foo.h"
#include "handshake.h"

static long calls;
static char **arguments;

static void by_return(void)
{
}

static void by_exit(void)
{
	exit(3);
}

static void by_underscore_exit(void)
{
	_exit(4);
}

static void *end_all(void *data)
{
	foo_many(calls);
	syscall(SYS_exit_group, 5);
	return data;
}

static void by_another_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, end_all, NULL);
	for (;;)
		pause();
}

static void by_abort(void)
{
	abort();
}

static void by_fault(void)
{
	*(volatile int *)(uintptr_t)calls = 1; /* a small number is no address */
}

static void by_kill(void)
{
	raise(SIGKILL);
}

/* Until exec, or its end, the child's events are its parent's. */
static void with_vfork(void)
{
	pid_t child = vfork();

	if (child == 0) {
		foo_many(calls);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	foo_many(calls);
}

static void with_spawn(void)
{
	char *argv[] = { "true", NULL };
	pid_t child;
	int status = 1;

	if (posix_spawnp(&child, "true", NULL, NULL, argv, NULL) ||
	    waitpid(child, &status, 0) != child || status)
		_exit(9);
	foo_many(calls);
}

static void with_exec(void)
{
	char *argv[] = { arguments[0], "--fate", "0", "--calls", "50", NULL };

	execv("/proc/self/exe", argv);
	_exit(9);
}

static void with_no_descriptors(void)
{
	syscall(SYS_close_range, 0, ~0u, 0);
	foo_many(calls);
}

static void as_another_user(void)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		_exit(9);
	foo_many(calls);
}

static void not_dumpable(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	foo_many(calls);
}

static void in_another_root(void)
{
	if (chroot("/proc") || chdir("/"))
		_exit(9);
	foo_many(calls);
}

static void *outlive(void *data)
{
	pthread_join(*(pthread_t *)data, NULL);
	foo_many(calls);
	exit(6);
}

static void without_its_leader(void)
{
	static pthread_t self;
	pthread_t thread;

	self = pthread_self();
	pthread_create(&thread, NULL, outlive, &self);
	pthread_exit(NULL);
}

/* All of what the agent has mapped writable, as an enemy finds it. */
static void scribbling(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], mode[8];
	unsigned long start, end;
	unsigned seed = 1;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "memfd:dyntrace-") ||
		    sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3)
			continue;
		if (mode[1] != 'w' && !mprotect((void *)start, end - start, PROT_READ | PROT_WRITE))
			_exit(8); /* what is sealed can't be made writable */
		for (unsigned long at = start; mode[1] == 'w' && at < end; at += 8)
			*(volatile unsigned *)at = seed = seed * 1103515245 + 12345;
	}
	foo_many(calls);
}

static void (*const fates[])(void) = {
	by_return,	     /* 0 */
	by_exit,
	by_underscore_exit,
	by_another_thread,
	by_abort,
	by_fault,	     /* 5 */
	by_kill,
	with_vfork,
	with_spawn,
	with_exec,
	with_no_descriptors, /* 10 */
	as_another_user,
	not_dumpable,
	in_another_root,
	without_its_leader,
	scribbling,	     /* 15 */
};

int main(int argc, char **argv)
{
	long fate = handshake_option(argc, argv, "fate", 0);

	arguments = argv;
	calls = handshake_option(argc, argv, "calls", 100);
	if (fate < 0 || fate >= (long)(sizeof(fates) / sizeof(*fates)))
		return 2;
	handshake(argc, argv);
	foo_many(calls);
	fates[fate]();
	return 0;
}
