/*
 * cmd_lttng.c - dyntrace lttng WORDS...: one command for dyntrace and lttng. Runs `trace` and
 * commands with --pid itself, and passes the others to lttng.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "daemon/lttng_session.h"
#include "options/commands.h"

static const struct option_spec options[] = {
	{ 0 },
};

static const struct command *const ours[] = { &command_enable_event, &command_disable_event,
					      &command_add_context, &command_remove_context,
					      &command_trace, NULL };

static bool names_process(char *const *words)
{
	for (; *words; words++) {
		if (!strcmp(*words, "--pid") || !strncmp(*words, "--pid=", strlen("--pid=")))
			return true;
	}
	return false;
}

static const struct command *find_ours(char *const *words)
{
	for (const struct command *const *command = ours; words[0] && *command; command++) {
		if (!strcmp((*command)->name, words[0]) &&
		    (*command == &command_trace || names_process(words)))
			return *command;
	}
	return NULL;
}

static struct error *run(const struct words *words, int *ret_status)
{
	char **rest = words->rest;
	const struct command *command = find_ours(rest);
	int count = 0;

	while (rest[count])
		count++;
	if (command) {
		lttng_session_is_default = true;
		*ret_status = cli_run(command, count - 1, rest + 1);
		return NULL;
	}
	rest--; /* from the word "lttng" on */
	execvp("lttng", rest);
	if (errno == ENOENT)
		return error_new(
			ERROR_NOT_FOUND,
			"lttng is not installed (only trace, and enable-event, disable-event, "
			"add-context and remove-context with --pid work without it)");
	return error_errno(errno, "cannot run lttng");
}

const struct command command_lttng = {
	.name = "lttng",
	.summary = "run lttng, adding the commands that dyntrace provides",
	.usage = "WORDS...",
	.details =
		"dyntrace runs trace, and enable-event, disable-event, add-context and remove-context with\n"
		"--pid; other commands go to lttng. alias lttng='dyntrace lttng' makes one command of both.\n"
		"\n"
		"enable-event with --pid records events of LTTng here (--tracer lttng), with all values, and\n"
		"enables them in the current session and channel, or in those of -s and -c.",
	.example =
		"dyntrace lttng create\n"
		"dyntrace lttng enable-event order -u --pid 1234 --function take_order\n"
		"dyntrace lttng start\n"
		"dyntrace lttng view",
	.options = options,
	.raw = true,
	.run = run,
};
