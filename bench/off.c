/*
 * off.c - hold probes in a process, placed but switched off.
 *
 * usage: off PID OUTPUT LOC...
 *
 * There is no command for that yet, so this uses the controller's session and turns each tracepoint's switch
 * by name. Prints "off" when that is done; takes everything out when stdin ends, and prints how many events
 * there were.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/session/session.h"

static void check(struct error *error)
{
	if (!error)
		return;
	fprintf(stderr, "off: %s\n", error_text(error));
	exit(1);
}

static bool stdin_ended(void)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char byte;

	return poll(&in, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int main(int argc, char **argv)
{
	struct session_summary summary;
	struct session *session;
	struct proc *proc;

	if (argc < 4) {
		fprintf(stderr, "usage: off PID OUTPUT LOC...\n");
		return 2;
	}
	struct session_options options = { .output = argv[2], .buffer_size = DT_POOL_DEFAULT };
	check(proc_open(atoi(argv[1]), &proc));
	check(session_create(proc, &options, &session));
	for (int i = 3; i < argc; i++)
		check(session_add(session, &(struct tracepoint_spec){ .location = argv[i] }, NULL));
	check(session_resolve(session));
	check(session_begin(session, NULL));
	check(session_switch(session, "*", false, NULL));
	printf("off\n");
	fflush(stdout);
	while (!stdin_ended() && !session_ended(session))
		check(session_step(session, 50));
	check(session_end(session, &summary));
	printf("%llu events\n", (unsigned long long)summary.totals.events);
	session_destroy(session);
	proc_close(proc);
	return 0;
}
