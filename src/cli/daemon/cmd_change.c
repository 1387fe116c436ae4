/*
 * cmd_change.c - dyntrace rm, enable, disable: tracepoints by name.
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

static struct error *change(const struct words *words, unsigned kind)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_free_ char *target = NULL;
	const char *name;

	if (words->count != 1)
		return error_new(ERROR_USAGE, "give one TARGET:NAME");
	struct error *error = daemon_call_split(words->items[0], "NAME", &target, &name);
	if (!error)
		error = daemon_call_connect(&client);
	if (error)
		return error;
	wire_text(daemon_call_begin(client, kind, target, args.all), WIRE_NAME, name);
	return daemon_call_finish(client, NULL, NULL);
}

#define NAME_TEXT "NAME is that of a tracepoint, or a glob (quote it): * ? [a-z]."

const struct command command_rm = {
	.name = "rm",
	.summary = "remove tracepoints of a process",
	.usage = "[OPTIONS] TARGET:NAME",
	.details =
		"The code is as it was before, and the name is free again. What was recorded stays in the trace. " NAME_TEXT,
	.example = "dyntrace rm redis-server:processCommand\n"
		   "dyntrace rm 'redis-server:*'",
	.options = options,
	.ask = change,
	.asks_for = WIRE_REMOVE,
};

const struct command command_enable = {
	.name = "enable",
	.summary = "switch tracepoints on",
	.usage = "[OPTIONS] TARGET:NAME",
	.details = "The process isn't stopped for it. " NAME_TEXT,
	.example = "dyntrace enable redis-server:processCommand",
	.options = options,
	.ask = change,
	.asks_for = WIRE_ENABLE,
};

const struct command command_disable = {
	.name = "disable",
	.summary = "switch tracepoints off, and leave them in place",
	.usage = "[OPTIONS] TARGET:NAME",
	.details =
		"The process isn't stopped for it. A tracepoint that is off costs next to nothing. " NAME_TEXT,
	.example = "dyntrace disable 'redis-server:*'",
	.options = options,
	.ask = change,
	.asks_for = WIRE_DISABLE,
};
