/*
 * signals_in_use - has a use for every signal that other programs ignore.
 *	signals_in_use [--caught 1] [--blocked 1]
 * Prints how many of them have come, between its two handshakes: to its handler, or to wait.
 */
#include <signal.h>

#include "foo.h"
#include "handshake.h"

static const int numbers[] = { SIGURG, SIGWINCH, SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD };
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	(void)number;
	caught = caught + 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	sigset_t all, pending;
	int count = 0;

	sigemptyset(&all);
	for (size_t i = 0; i < NUMBERS; i++) {
		sigaddset(&all, numbers[i]);
		if (handshake_option(argc, argv, "caught", 0))
			sigaction(numbers[i], &action, NULL);
	}
	if (handshake_option(argc, argv, "blocked", 0))
		sigprocmask(SIG_BLOCK, &all, NULL);
	handshake(argc, argv);
	foo_many(1);
	handshake(argc, argv);
	sigpending(&pending);
	for (size_t i = 0; i < NUMBERS; i++)
		count += sigismember(&pending, numbers[i]);
	printf("%d signals\n", count + caught);
	return 0;
}
