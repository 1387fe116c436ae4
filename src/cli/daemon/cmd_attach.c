/*
 * cmd_attach.c - dyntrace attach: the agent is in the process, and the daemon has it in its list.
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

static struct error *run(const struct words *words, int *ret_status)
{
	(void)ret_status;
	return daemon_call_target(words, ASK_ONE_TARGET, WIRE_ATTACH, args.all, NULL, NULL);
}

const struct command command_attach = {
	.name = "attach",
	.summary = "put the agent into a process",
	.usage = "[OPTIONS] TARGET",
	.details =
		"The process is held for a moment, and then goes on with the agent in it, which does nothing until there are\n"
		"tracepoints. 'dyntrace add' does this by itself where it is needed; a program that is linked with the agent, or\n"
		"started with it preloaded, needs none of it. Attaching to a process that has the agent is no error.",
	.example = "dyntrace attach redis-server",
	.options = options,
	.run = run,
};
