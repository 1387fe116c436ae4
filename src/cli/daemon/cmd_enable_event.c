/*
 * cmd_enable_event.c - dyntrace enable-event: the syntax of LTTng's kernel probe interface. With
 * the tracer lttng, a session of LTTng gets a rule for the event.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_add.h"
#include "control/base/cleanup.h"
#include "control/event/lttng_identity.h"
#include "control/event/tracer.h"
#include "lttng_session.h"
#include "options/lttng_options.h"
#include "options/min_duration.h"

static struct {
	bool user_space, exit;
	const char *pid;
	struct option_values what;
	const char *filter, *min_duration, *tracer;
	struct option_values contexts;
	struct lttng_args lttng;
	const char *only_level;
	struct lttng_session where;
} args;

static const struct option_spec enable_options[] = {
	{ 'u', "userspace", NULL, "user space (accepted for LTTng's syntax)",
	  .flag = &args.user_space },
	{ 0, "pid", "PID", "the process: a pid or a name", .string = &args.pid },
	{ 0, "probe", "LOC", "a bare probe at this instruction", .list = &args.what,
	  .tag = WIRE_BARE },
	{ 0, "function", "LOC", "function entry, with its arguments", .list = &args.what,
	  .tag = WIRE_ENTRY },
	{ 'e', "exit", NULL, "with --function: also the function's exit", .flag = &args.exit },
	{ 0, "filter", "EXPR", "record only if this is true", .string = &args.filter },
	{ 0, "min-duration", "TIME",
	  "with -e record only calls that take so long or longer (10us, 1ms, 2s), entry and exit",
	  .string = &args.min_duration },
	{ 't', "type", "TYPE", "also record this context (repeatable), as in add-context",
	  .list = &args.contexts },
	{ 0, "tracer", "T",
	  "action on each hit: ctf (the default), log, lttng (the default in dyntrace lttng), count,\n"
	  "call:LIBRARY:FUNCTION",
	  .string = &args.tracer },
	OPTION_GROUP("With the tracer lttng"),
	{ 's', "session", "NAME", "record in this session of LTTng (default: the current one)",
	  .string = &args.where.session },
	{ 'c', "channel", "NAME", "and in this channel (default: as lttng chooses)",
	  .string = &args.where.channel },
	LTTNG_LEVEL_OPTION(args.lttng, "the event's log level, and the least severe one of the "
				       "session's rule: info, debug_line, ..."),
	{ 0, "loglevel-only", "LEVEL", "the same, with a rule for that level alone",
	  .string = &args.only_level },
	LTTNG_NOWRITE_OPTION(args.lttng),
	OPTION_GROUP("The daemon"),
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static struct error *check_name(const struct words *words)
{
	if (words->count != 1)
		return error_new(ERROR_USAGE, "give one NAME, the event's");
	return args.pid ? NULL : error_new(ERROR_USAGE, "no process (give --pid PID)");
}

static bool is_switch(void)
{
	return !args.what.count && !args.exit && !args.filter && !args.min_duration &&
	       !args.contexts.count && !args.tracer && !args.where.session &&
	       !args.where.channel && !args.only_level && !args.lttng.loglevel &&
	       !args.lttng.nowrite.count;
}

static struct error *switch_on(const char *name)
{
	struct daemon_request request = { .kind = WIRE_ENABLE,
					  .target = args.pid,
					  .texts = { { WIRE_NAME, name } } };

	return daemon_call_request(&request, NULL, NULL);
}

/* ---- in a session of LTTng ------------------------------------------------------------------- */

/* Reads the options that only the tracer lttng has. */
static struct error *check_lttng_options(bool is_lttng)
{
	const char *option = args.where.session ? "-s" :
			     args.where.channel ? "-c" :
			     args.only_level	? "--loglevel-only" :
						  NULL;

	if (option && !is_lttng)
		return error_new(ERROR_USAGE, "%s: only with the tracer lttng", option);
	if (args.only_level && args.lttng.loglevel)
		return error_new(ERROR_USAGE, "--loglevel: not with --loglevel-only");
	if (args.only_level)
		args.lttng.loglevel = args.only_level;
	args.where.loglevel = args.lttng.loglevel;
	args.where.only = args.only_level != NULL;
	return NULL;
}

/* The events of the tracepoint of this name, by its shape. */
static struct error *enable_events(struct lttng_rules *rules, const char *name)
{
	static const char *const suffixes[] = { "_entry", "_exit" };
	const char *provider = lttng_identity_provider(name) ? "" : LTTNG_PROVIDER ":";
	bool is_bare = args.what.items[0].option->tag == WIRE_BARE;
	struct error *error = NULL;

	if (strpbrk(name, ",*"))
		return error_new(ERROR_USAGE,
				 "'%s': a comma or a star in a name means several events to lttng",
				 name);
	for (size_t i = 0; i <= (args.exit ? 1 : 0) && !error; i++) {
		_cleanup_free_ char *event = NULL;

		if (asprintf(&event, "%s%s%s", provider, name, is_bare ? "" : suffixes[i]) < 0)
			return error_new(ERROR_FAILED, "out of memory");
		error = lttng_session_enable(&args.where, event, rules);
	}
	return error;
}

struct made {
	VEC(char *) names;
};

static struct error *note_name(void *context, const char *name)
{
	struct made *made = context;
	char *copy = strdup(name);

	if (copy && vec_push(&made->names, copy))
		return NULL;
	free(copy);
	return error_new(ERROR_FAILED, "out of memory");
}

/*
 * Enables the event first: without a session the target stays as it is, and with one no hit is
 * missed. Of a glob, the names of further tracepoints are known only afterwards.
 */
static struct error *add_in_session(const struct add_request *request)
{
	struct lttng_rules rules = { 0 };
	struct made made = { 0 };
	struct error *error = enable_events(&rules, request->name);

	if (!error)
		error = add_tracepoint(request, note_name, &made);
	if (error)
		lttng_session_undo(&args.where, &rules);
	for (size_t i = 0; i < made.names.count; i++) {
		if (!error && strcmp(made.names.items[i], request->name) != 0)
			error = enable_events(&rules, made.names.items[i]);
		free(made.names.items[i]);
	}
	vec_free(&made.names);
	for (char *line = rules.said.text; !error && line && *line;) {
		char *next = strsep(&line, "\n");

		cli_print("%s\n", next);
	}
	lttng_rules_free(&rules);
	return error;
}

/* ---- the command ----------------------------------------------------------------------------- */

static struct error *check_what(void)
{
	if (args.what.count != 1)
		return error_new(ERROR_USAGE,
				 "no location (give one of --probe LOC and --function LOC)");
	if (args.exit && args.what.items[0].option->tag != WIRE_ENTRY)
		return error_new(ERROR_USAGE, "-e: needs --function LOC");
	return NULL;
}

static struct error *enable(const char *name, const char *tracer, const char *argument)
{
	bool is_lttng = tracer && !strcmp(tracer, "lttng");
	bool in_session = is_lttng && (lttng_session_is_default || args.where.session ||
				       args.where.channel);
	const struct option_value *what = &args.what.items[0];
	_cleanup_free_ char *words = NULL, *filter = NULL;
	struct add_request request = { .target = args.pid,
				       .location = what->text,
				       .shape = args.exit ? WIRE_FUNCTION :
							    (enum wire_shape)what->option->tag,
				       .name = name,
				       .contexts = &args.contexts,
				       .tracer = tracer };
	struct error *error = check_lttng_options(is_lttng);

	if (!error)
		error = min_duration_filter(args.min_duration, args.exit, args.filter, &filter);
	request.filter = filter;
	if (!error)
		error = lttng_options_argument(&args.lttng, tracer,
					       in_session && !argument ? "enabled" : argument,
					       &words);
	if (error)
		return error;
	if (words) {
		request.arguments = &words;
		request.argument_count = 1;
	}
	return in_session ? add_in_session(&request) : add_tracepoint(&request, NULL, NULL);
}

static struct error *run_enable(const struct words *words, int *ret_status)
{
	_cleanup_free_ char *tracer = NULL;
	const char *argument = NULL;
	struct error *error = check_name(words);

	(void)ret_status;
	if (!error && is_switch())
		return switch_on(words->items[0]);
	if (!args.tracer && lttng_session_is_default)
		args.tracer = "lttng";
	if (!error)
		error = check_what();
	if (!error && args.tracer)
		error = tracer_split(args.tracer, &tracer, &argument);
	return error ? error : enable(words->items[0], tracer, argument);
}

const struct command command_enable_event = {
	.name = "enable-event",
	.summary = "add a tracepoint with LTTng's syntax, or switch one on again",
	.usage = "NAME -u --pid PID (--probe LOC | --function LOC) [OPTIONS]\n"
		 "NAME -u --pid PID",
	.details =
		"The second form switches an existing event on. Numbers in LOC may be octal (017), decimal or\n"
		"hexadecimal (0xf).",
	.example = "dyntrace enable-event hit -u --pid 1234 --probe main+0x10\n"
		   "dyntrace enable-event work -u --pid 1234 --function foo -e",
	.options = enable_options,
	.run = run_enable,
};
