/*
 * recorder.c - record a function of a program, and print notifications meanwhile.
 *
 *	cc recorder.c $(pkg-config --cflags --libs dyntrace) -o recorder
 *	./recorder redis-server processCommand tid
 *
 * The arguments after the function are contexts, recorded with each call. One poll waits for
 * notifications and for the input, where "off" and "on" disable and enable the tracepoint; the end
 * of the input detaches from the program. Ends with the program, too. Prints the trace's directory
 * first.
 */
#include <dyntrace/dyntrace.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "recorded"

static struct dyntrace *dyntrace;
static const char *target;

static int failed(struct dyntrace_error *error)
{
	if (!error)
		return 0;
	fprintf(stderr, "recorder: %s\n", dyntrace_error_text(error));
	dyntrace_error_free(error);
	return 1;
}

/* Adds the contexts, then enables the tracepoint. */
static int complete(int pid, char **contexts)
{
	struct dyntrace_list *list;

	for (; *contexts; contexts++)
		if (failed(dyntrace_add_context(dyntrace, target, NAME, *contexts, 0)))
			return 1;
	if (failed(dyntrace_enable(dyntrace, target, NAME, 0)) ||
	    failed(dyntrace_list_processes(dyntrace, &list)))
		return 1;
	for (size_t i = 0; i < dyntrace_list_count(list); i++)
		if (dyntrace_list_process(list, i)->pid == pid)
			printf("recording to %s\n", dyntrace_list_process(list, i)->trace);
	dyntrace_list_free(list);
	fflush(stdout);
	return 0;
}

static int begin(const char *function, char **contexts)
{
	struct dyntrace_probe probe = { .size = sizeof(probe),
				       .location = function,
				       .shape = DYNTRACE_ENTRY_EXIT,
				       .name = NAME };
	struct dyntrace_list *list;

	if (failed(dyntrace_add(dyntrace, target, &probe, DYNTRACE_DISABLED, &list)))
		return 1;
	const struct dyntrace_tracepoint *added = dyntrace_list_tracepoint(list, 0);
	int status = complete(added ? added->pid : 0, contexts);
	dyntrace_list_free(list);
	if (status)
		failed(dyntrace_remove(dyntrace, target, NAME, 0));
	return status;
}

/* Prints all that have come. *ret_over: the program isn't traced any more. */
static int print_events(struct dyntrace_watch *watch, int *ret_over)
{
	const struct dyntrace_event *event;

	for (;;) {
		if (failed(dyntrace_watch_next(watch, 0, &event)))
			return 1;
		if (!event)
			return 0;
		printf("%s (%d): %s%s%s\n", event->program, event->pid, event->name,
		       event->detail ? ": " : "", event->detail ? event->detail : "");
		fflush(stdout);
		if (!strcmp(event->name, "exited") || !strcmp(event->name, "detached"))
			*ret_over = 1;
	}
}

/* Reads one word of the input; at its end, detaches. */
static int obey(int *ret_eof)
{
	char word[16];
	ssize_t length = read(STDIN_FILENO, word, sizeof(word));

	if (length <= 0) {
		*ret_eof = 1;
		return failed(dyntrace_detach(dyntrace, target, 0));
	}
	if (!strncmp(word, "off\n", 4) && failed(dyntrace_disable(dyntrace, target, NAME, 0)))
		return 1;
	if (!strncmp(word, "on\n", 3) && failed(dyntrace_enable(dyntrace, target, NAME, 0)))
		return 1;
	printf("done\n");
	fflush(stdout);
	return 0;
}

static int wait_for_end(struct dyntrace_watch *watch)
{
	struct pollfd wait[] = { { .fd = dyntrace_watch_fd(watch), .events = POLLIN },
				{ .fd = STDIN_FILENO, .events = POLLIN } };
	int over = 0, eof = 0;

	while (!print_events(watch, &over)) {
		if (over)
			return 0;
		if (poll(wait, eof ? 1 : 2, -1) < 0)
			return 1;
		if (!eof && wait[1].revents && obey(&eof))
			return 1;
	}
	return 1;
}

int main(int argc, char **argv)
{
	struct dyntrace_watch *watch;

	if (argc < 3) {
		fprintf(stderr, "usage: recorder TARGET FUNCTION [CONTEXT...]\n");
		return 2;
	}
	target = argv[1];
	if (failed(dyntrace_connect(NULL, &dyntrace)))
		return 1;
	int status = failed(dyntrace_watch_open(dyntrace, target, &watch));
	if (!status) {
		status = begin(argv[2], argv + 3) || wait_for_end(watch);
		dyntrace_watch_close(watch);
	}
	dyntrace_close(dyntrace);
	return status;
}
