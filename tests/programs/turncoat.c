/*
 * turncoat.c - a program that executes another one when it is told to.
 *
 *	turncoat COMMAND-FD PROGRAM WAY [SOCKET MESSAGE]
 *					waits for a byte and executes PROGRAM
 *	turncoat --innocent		what it executes: the same code, of another file
 *	turncoat --hidden		the same, not dumpable
 *
 * WAY: "leader", "thread" (another thread executes it), "sharer" (a process that shares the memory
 * stays behind). MESSAGE, in hexadecimal, is sent to SOCKET first, and no answer is awaited. The
 * second program goes on until it reads a line. Both call foo all the time: a probe that was meant
 * for the one finds its place in the other.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static volatile unsigned long calls;
static char **words;

__attribute__((noinline)) unsigned long foo(unsigned long n)
{
	calls += n;
	__asm__ volatile("" ::: "memory");
	return calls;
}

static bool has_input(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 1) > 0;
}

static int be_innocent(void)
{
	char line[16];

	puts("ready");
	fflush(stdout);
	while (!has_input(STDIN_FILENO))
		foo(1);
	if (read(STDIN_FILENO, line, sizeof(line)) < 1)
		return EXIT_FAILURE;
	printf("innocent %d\n", geteuid());
	return EXIT_SUCCESS;
}

__attribute__((noreturn)) static int stay(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* cleared by nobody's execve but its own */
	for (;;)
		pause();
}

static void send_message(const char *path, const char *hex)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		_exit(4);
	for (unsigned byte; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
		if (write(fd, &(unsigned char){ (unsigned char)byte }, 1) != 1)
			_exit(5);
	}
}

__attribute__((noreturn)) static void *turn(void *unused)
{
	static char stack[65536] __attribute__((aligned(16)));
	char byte;

	(void)unused;
	if (!strcmp(words[3], "sharer") && clone(stay, stack + sizeof(stack), CLONE_VM, NULL) < 0)
		_exit(3);
	puts("ready");
	fflush(stdout);
	if (words[4])
		send_message(words[4], words[5]);
	while (!has_input(atoi(words[1])))
		foo(1);
	if (read(atoi(words[1]), &byte, 1) == 1)
		execl(words[2], words[2], "--innocent", NULL);
	_exit(2);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc == 2 && !strcmp(argv[1], "--hidden"))
		prctl(PR_SET_DUMPABLE, 0);
	if (argc == 2)
		return be_innocent();
	if (argc != 4 && argc != 6)
		return EXIT_FAILURE;
	words = argv;
	if (strcmp(argv[3], "thread") != 0)
		turn(NULL);
	if (pthread_create(&thread, NULL, turn, NULL))
		return EXIT_FAILURE;
	for (;;)
		foo((unsigned long)has_input(-1));
}
