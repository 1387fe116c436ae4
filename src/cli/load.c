/*
 * load.c - dyntrace load TARGET LIBRARY
 */
#include "ask.h"

static struct {
	bool all;
} args;

static const struct option_spec options[] = {
	ASK_ALL_OPTION(&args.all),
	ASK_SOCKET_OPTION,
	{ 0 },
};

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *library = NULL;

	(void)ret_status;
	if (words->count != 2)
		return error_new(ERROR_USAGE, "give a TARGET and a LIBRARY");
	struct error *error = client_absolute(words->items[1], &library);
	if (!error)
		error = ask_connect(&client);
	if (error)
		return error;
	wire_text(ask_begin(client, WIRE_LOAD, words->items[0], args.all), WIRE_LIBRARY, library);
	return ask_finish(client, NULL, NULL);
}

const struct command command_load = {
	.name = "load",
	.summary = "load a library of probe functions into a process",
	.usage = "[OPTIONS] TARGET LIBRARY",
	.details = "Only into your own processes, unless you are root. The functions are called by tracepoints with the tracer\n"
		   "'call LIBRARY:FUNCTION'.",
	.example = "dyntrace load redis-server ./libprobes.so",
	.options = options,
	.run = run,
};
