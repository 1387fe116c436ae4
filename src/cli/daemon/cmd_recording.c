/*
 * cmd_recording.c - dyntrace start, stop, flush, snapshot: one target's recording, or everybody's.
 */
#include <inttypes.h>

#include "daemon_call.h"

static struct {
	bool all;
} args;

static const struct option_spec options[] = {
	ASK_ALL_OPTION(&args.all),
	ASK_SOCKET_OPTION,
	{ 0 },
};

/* A snapshot says where it is. */
static struct error *print_output(void *context, const struct wire_message *item)
{
	const char *output = wire_get_text(item, WIRE_OUTPUT);

	(void)context;
	if (output)
		puts(output);
	return NULL;
}

static struct error *ask(const struct words *words, unsigned kind)
{
	return daemon_call_target(words, ASK_ANY_TARGET, kind, args.all, print_output, NULL);
}

#define ALL_TEXT "Without TARGET this is for every process that you may trace."

const struct command command_start = {
	.name = "start",
	.summary = "record; needed after 'stop', or if the daemon was started with --stopped",
	.usage = "[OPTIONS] [TARGET]",
	.details = ALL_TEXT
	" If root, or who runs the daemon, says it, it counts for processes that come later as well.",
	.example = "dyntrace start\n"
		   "dyntrace start redis-server",
	.options = options,
	.ask = ask,
	.asks_for = WIRE_START,
};

const struct command command_stop = {
	.name = "stop",
	.summary = "record nothing until 'start'; tracepoints stay in place",
	.usage = "[OPTIONS] [TARGET]",
	.details = ALL_TEXT
	" If root, or who runs the daemon, says it, it counts for processes that come later as well.",
	.example = "dyntrace stop",
	.options = options,
	.ask = ask,
	.asks_for = WIRE_STOP,
};

const struct command command_flush = {
	.name = "flush",
	.summary = "write what was recorded so far to the traces, now",
	.usage = "[OPTIONS] [TARGET]",
	.details =
		"When it returns, every event up to its call is in the trace. It happens by itself, too, a moment after each\n"
		"event. " ALL_TEXT,
	.example = "dyntrace flush redis-server",
	.options = options,
	.ask = ask,
	.asks_for = WIRE_FLUSH,
};

const struct command command_snapshot = {
	.name = "snapshot",
	.summary = "write what the buffers of a flight recorder hold to a trace of its own",
	.usage = "[OPTIONS] [TARGET]",
	.details =
		"For a daemon that was started with --mode overwrite. Prints the new trace's directory. Recording goes on.\n" ALL_TEXT,
	.example = "dyntrace snapshot redis-server",
	.options = options,
	.ask = ask,
	.asks_for = WIRE_SNAPSHOT,
};
