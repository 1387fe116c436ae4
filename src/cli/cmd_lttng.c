/*
 * cmd_lttng.c - dyntrace lttng WORDS...: one command for dyntrace and lttng. Runs `trace` and
 * commands with --pid itself, and passes the others to lttng.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/event/lttng_identity.h"
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

/* ---- trace ----------------------------------------------------------------------------------- */

/* Do the words say where events go, or ask for help? */
static bool says_where(char *const *words)
{
	static const char *const chosen[] = { "--tracer", "--output", "--profile", "--help",
					      "--explain" };

	for (; *words && strcmp(*words, "--") != 0; words++) {
		for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); i++) {
			size_t length = strlen(chosen[i]);

			if (!strncmp(*words, chosen[i], length) &&
			    (!(*words)[length] || (*words)[length] == '='))
				return true;
		}
		if (!strncmp(*words, "-o", 2) || !strcmp(*words, "-h"))
			return true;
	}
	return false;
}

/* True: the current session records all that a trace names. */
static bool enable_all(void)
{
	const struct lttng_session current = { 0 };
	struct lttng_rules rules = { 0 };
	struct error *error = lttng_session_enable(&current, LTTNG_PROVIDER ":*", &rules);

	for (char *line = rules.said.text; !error && line && *line;) {
		char *next = strsep(&line, "\n");

		cli_print("%s\n", next);
	}
	if (error)
		cli_note("%s: dyntrace writes a trace of its own", error_text(error));
	lttng_rules_free(&rules);
	bool enabled = !error;
	error_free(error);
	return enabled;
}

/* Events go to the current session, typed, if there is one and the user doesn't say otherwise. */
static struct error *run_trace(char **rest, int count, int *ret_status)
{
	static char *const more[] = { "--tracer", "lttng", "--typed" };
	int added = 0;

	_cleanup_free_ char **all = calloc((size_t)count + 4, sizeof(*all));
	if (!all)
		return error_new(ERROR_FAILED, "out of memory");
	if (!says_where(rest) && enable_all()) {
		memcpy(all, more, sizeof(more));
		added = (int)(sizeof(more) / sizeof(more[0]));
	}
	memcpy(all + added, rest, (size_t)count * sizeof(*all));
	*ret_status = cli_run(&command_trace, count + added, all);
	return NULL;
}

/* ---- the command ----------------------------------------------------------------------------- */

static struct error *run(const struct words *words, int *ret_status)
{
	char **rest = words->rest;
	const struct command *command = find_ours(rest);
	int count = 0;

	while (rest[count])
		count++;
	if (command == &command_trace)
		return run_trace(rest + 1, count - 1, ret_status);
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
		"enables them in the current session and channel, or in those of -s and -c. So does trace in\n"
		"the current session, unless --tracer or -o says otherwise; without a session it writes a\n"
		"trace of dyntrace's own.",
	.example =
		"dyntrace lttng create\n"
		"dyntrace lttng enable-event order -u --pid 1234 --function take_order\n"
		"dyntrace lttng start\n"
		"dyntrace lttng view",
	.options = options,
	.raw = true,
	.run = run,
};
