/*
 * cmd_load.c - dyntrace load TARGET LIBRARY, dyntrace unload TARGET LIBRARY
 */
#include "daemon_call.h"

static struct {
	bool all;
} args;

static const struct option_spec options[] = {
	ASK_ALL_OPTION(&args.all),
	ASK_SOCKET_OPTION,
	{ 0 },
};

static struct error *ask_library(const struct words *words, unsigned kind)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *library = NULL;

	if (words->count != 2)
		return error_new(ERROR_USAGE, "give a TARGET and a LIBRARY");
	struct error *error = client_absolute_library(words->items[1], &library);
	if (!error)
		error = daemon_call_connect(&client);
	if (error)
		return error;
	wire_text(daemon_call_begin(client, kind, words->items[0], args.all), WIRE_LIBRARY, library);
	return daemon_call_finish(client, NULL, NULL);
}

const struct command command_load = {
	.name = "load",
	.summary = "load a library of probe functions into a process",
	.usage = "[OPTIONS] TARGET LIBRARY",
	.details =
		"The process's own loader opens it, so its user must be able to read the file; constructors run. Only into your\n"
		"own processes, unless you are root. Tracepoints with the tracer 'call LIBRARY:FUNCTION' call its functions; they\n"
		"load it by themselves, too, if it isn't there. How to write one: <dyntrace/probe.h>.",
	.example = "dyntrace load redis-server ./libprobes.so\n"
		   "dyntrace add redis-server:processCommand call libprobes.so:on_command",
	.options = options,
	.ask = ask_library,
	.asks_for = WIRE_LOAD,
};

const struct command command_unload = {
	.name = "unload",
	.summary = "unload a library of probe functions from a process",
	.usage = "[OPTIONS] TARGET LIBRARY",
	.details =
		"By its path or its file name. Not while tracepoints use it: remove them first. 'detach' unloads all that dyntrace\n"
		"has loaded.",
	.example = "dyntrace unload redis-server libprobes.so",
	.options = options,
	.ask = ask_library,
	.asks_for = WIRE_UNLOAD,
};
