#include "trace_args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "control/session/session.h"
#include "shared/program.h"

struct trace_args trace_args = { .buffer_size = DT_POOL_DEFAULT };

static const char *const modes[] = { [SESSION_DISCARD] = "discard",
				     [SESSION_OVERWRITE] = "overwrite",
				     [SESSION_BLOCK] = "block",
				     NULL };

const struct option_spec trace_options[] = {
	OPTION_GROUP("Which program"),
	{ 'c', NULL, "COMMAND", "start this command, traced from its first instruction",
	  .string = &trace_args.command },
	{ 'p', NULL, "TARGET", "trace this process: a pid, or a name",
	  .string = &trace_args.target },
	{ 0, "no-follow-fork", NULL, "don't trace processes that the target forks",
	  .flag = &trace_args.no_follow_fork },
	{ 0, "follow-exec", NULL, "trace the programs that it and its children begin (execve), too",
	  .flag = &trace_args.follow_exec },

	OPTION_GROUP("What to record"),
	{ 0, "function", "LOC", "a function's entry, with its arguments (repeatable)",
	  .list = &trace_args.what, .tag = TRACEPOINT_ENTRY },
	{ 'e', "exit", NULL, "the functions' exits too, with return value and duration",
	  .flag = &trace_args.exit },
	{ 0, "probe", "LOC", "that instruction, of which only the time is recorded (repeatable)",
	  .list = &trace_args.what, .tag = TRACEPOINT_BARE },
	{ 0, "marker", "PROVIDER:NAME",
	  "a static marker (SDT), with its arguments; both words may be globs (repeatable)",
	  .list = &trace_args.what, .tag = TRACEPOINT_BARE },
	{ 0, "wait", NULL, "what isn't there yet is traced when its library is loaded",
	  .flag = &trace_args.wait },
	{ 0, "explain", "LOC",
	  "trace nothing; show how a probe there would be placed and its code, or why it can't\n"
	  "be",
	  .string = &trace_args.explain },

	OPTION_GROUP("Values and filters"),
	{ 't', "context", "TYPE",
	  "record this with every event (repeatable): regs, reg:rax, tid, pid, cpu, comm,\n"
	  "backtrace[:FRAMES], var:NAME (a variable or argument, with members: var:req->path),\n"
	  "VARTYPE:NAME:ADDR (memory, as int, uint64_t, double, string, ...)",
	  .list = &trace_args.contexts },
	{ 0, "string-max", "SIZE", "bytes of a string that are recorded (default: 256)",
	  .size = &trace_args.string_max },
	{ 0, "filter", "EXPR",
	  "record only what this is true for: 'size > 4096 && path != NULL', '$rdi > 4096'",
	  .string = &trace_args.filter },
	{ 0, "every", "N", "record the first hit of each place, and then every Nth",
	  .size = &trace_args.every },
	{ 0, "first", "N", "record the first N hits of each place", .size = &trace_args.first },
	{ 0, "rate", "N/s", "record at most N hits a second of each place",
	  .string = &trace_args.rate_text },

	OPTION_GROUP("How"),
	{ 'o', "output", "DIR", "where the trace goes (default: ./NAME-DATE.dyntrace)",
	  .string = &trace_args.output },
	{ 0, "tracer", "TRACER",
	  "what a hit leads to: ctf (events, the default); log[:FILE] (a line of\n"
	  "text, to the program's own standard output or appended to FILE); count (only counted, in the target: hits, and with\n"
	  "-e how long calls took); lttng (events of LTTng-UST: dyntrace_lttng:tracepoint_hit, function_entry and\n"
	  "function_exit, or with -n NAME dyntrace:NAME, NAME_entry and NAME_exit with all values);\n"
	  "call:LIBRARY:FUNCTION (a function of yours, in the target)",
	  .string = &trace_args.tracer_text },
	{ 'n', "name", "NAME", "of the tracepoint (default: made from LOC)",
	  .string = &trace_args.name },
	{ 0, "for", "SECONDS", "stop after that time", .seconds = &trace_args.seconds },
	{ 0, "print", NULL, "every event as a line of text, as it comes",
	  .flag = &trace_args.print },
	{ 0, "buffer-size", "SIZE", "memory for events not written yet (default: 64M)",
	  .size = &trace_args.buffer_size },
	{ 0, "mode", "MODE",
	  "when that is full: discard new events and count them, overwrite the oldest (the last\n"
	  "events are written at the end, and at each SIGUSR1 to DIR.snapshot-N), or block the target\n"
	  "until there is room, for up to 10 s (default: discard)",
	  .choice = &trace_args.mode, .choices = modes },
	{ 0, "all-rows", NULL,
	  "every tracepoint in the table at the end, not just the 40 with most hits",
	  .flag = &trace_args.all_rows },
	{ 'q', "quiet", NULL, "no summary at the end", .flag = &trace_args.quiet },
	{ 0 },
};

static bool has_function(void)
{
	for (size_t i = 0; i < trace_args.what.count; i++) {
		if (trace_args.what.items[i].option->tag == TRACEPOINT_ENTRY)
			return true;
	}
	return false;
}

/* "100/s" */
static struct error *parse_rate(void)
{
	char *end;

	if (!trace_args.rate_text)
		return NULL;
	errno = 0;
	trace_args.rate = strtoull(trace_args.rate_text, &end, 10);
	if (errno || end == trace_args.rate_text || (strcmp(end, "/s") != 0 && *end) ||
	    trace_args.rate == 0)
		return error_new(ERROR_USAGE, "--rate: '%s' isn't a number a second, such as 100/s",
				 trace_args.rate_text);
	return NULL;
}

static struct error *check_markers(void)
{
	for (size_t i = 0; i < trace_args.what.count; i++) {
		const struct option_value *value = &trace_args.what.items[i];

		if (strcmp(value->option->name, "marker") == 0 && !strchr(value->text, ':'))
			return error_new(
				ERROR_USAGE,
				"--marker: '%s' isn't PROVIDER:NAME (quote globs: 'python:*')",
				value->text);
	}
	return NULL;
}

bool trace_args_need_libraries(void)
{
	for (size_t i = 0; i < trace_args.contexts.count; i++) {
		if (!strncmp(trace_args.contexts.items[i].text, "backtrace", strlen("backtrace")))
			return true;
	}
	return false;
}

static struct error *parse_tracer(void)
{
	struct error *error = trace_args.tracer_text ?
				      tracer_split(trace_args.tracer_text, &trace_args.tracer_name,
						   &trace_args.tracer_argument) :
				      NULL;

	if (!error)
		error = tracer_find(trace_args.tracer_name, &trace_args.tracer);
	if (!error)
		error = tracer_check(trace_args.tracer, trace_args.tracer_argument);
	if (!error && trace_args.tracer->kind == TRACER_CALL)
		error = client_absolute_function(trace_args.tracer_argument, &trace_args.function);
	if (trace_args.function)
		trace_args.tracer_argument = trace_args.function;
	return error_wrap(error, "--tracer");
}

static struct error *check_words(const struct words *words)
{
	int targets = !!trace_args.command + !!trace_args.target + !!words->rest;

	if (words->count)
		return error_new(ERROR_USAGE, "unexpected word '%s' (a command goes behind '--')",
				 words->items[0]);
	if (targets != 1)
		return error_new(ERROR_USAGE,
				 "%s: give one of -c COMMAND, -p TARGET and -- COMMAND",
				 targets ? "more than one target" : "nothing to trace");
	if (words->rest && !words->rest[0])
		return error_new(ERROR_USAGE, "no command behind '--'");
	if (!trace_args.what.count && !trace_args.explain)
		return error_new(
			ERROR_USAGE,
			"nothing to record: give --function LOC, --probe LOC or --marker PROVIDER:NAME");
	if (trace_args.exit && !has_function())
		return error_new(ERROR_USAGE,
				 "-e: give the function whose exit is meant, with --function LOC");
	if (trace_args.follow_exec && trace_args_need_libraries())
		return error_new(
			ERROR_USAGE,
			"-t backtrace: not with --follow-exec: callers would be named by the wrong "
			"program");
	if (trace_args.contexts.count > CONTEXTS_MAX)
		return error_new(ERROR_USAGE, "-t: at most %d contexts", CONTEXTS_MAX);
	if (trace_args.string_max > DT_STRING_MAX ||
	    (trace_args.string_max && trace_args.string_max < 8))
		return error_new(ERROR_USAGE, "--string-max: from 8 to %u", DT_STRING_MAX);
	if (trace_args.follow_exec && trace_args.tracer->kind != TRACER_CTF)
		return error_new(ERROR_USAGE, "--follow-exec: not with tracer '%s', only with ctf",
				 trace_args.tracer->name);
	if (trace_args.output && !trace_args.tracer->has_trace)
		return error_new(ERROR_USAGE, "tracer '%s' writes no trace: leave out -o",
				 trace_args.tracer->name);
	if (trace_args.buffer_size < DT_POOL_MIN || trace_args.buffer_size > DT_POOL_MAX)
		return error_new(ERROR_USAGE, "--buffer-size: from 1M to 4095M");
	return check_markers();
}

struct error *trace_args_check(const struct words *words)
{
	struct error *error = parse_tracer();

	if (!error)
		error = check_words(words);
	return error ? error : parse_rate();
}
