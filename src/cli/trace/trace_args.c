#include "trace_args.h"

#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "options/profile/profile.h"
#include "options/prototype_options.h"
#include "control/session/session.h"
#include "shared/program.h"
#include "options/min_duration.h"
#include "options/overhead_option.h"
#include "trace_question.h"
#include "trace_snapshot.h"

struct trace_args trace_args = { .buffer_size = DT_POOL_DEFAULT };

static struct error *read_profile(const char *path)
{
	return profile_read(path, trace_options);
}

const struct option_spec trace_options[] = {
	OPTION_GROUP("Target"),
	{ 'c', NULL, "COMMAND", "start this command, traced from its first instruction",
	  .string = &trace_args.command },
	{ 'p', "pid", "TARGET",
	  "trace this process, a pid, or all processes of this name, in one trace (repeatable)",
	  .list = &trace_args.targets },
	{ 0, "children", NULL, "with -p: also the processes that these have started so far",
	  .flag = &trace_args.children },
	{ 0, "no-follow-fork", NULL, "don't trace forked children",
	  .flag = &trace_args.no_follow_fork },
	{ 0, "follow-exec", NULL, "also trace programs that the target and its children start (execve)",
	  .flag = &trace_args.follow_exec },
	{ 0, "follow-daemons", NULL,
	  "go on until the processes that the target has forked have ended, too",
	  .flag = &trace_args.follow_daemons },
	{ 0, "no-suspend", NULL,
	  "never suspend the target's seccomp filter for a call of dyntrace's that it forbids",
	  .flag = &trace_args.no_suspend },
	{ 0, "profile", "FILE",
	  "take options from this file: one per line, by its long name ('function = main', 'exit');\n"
	  "lines that begin with # are comments; options behind this one override the file's",
	  .handle = read_profile },

	OPTION_GROUP("What to record"),
	{ 0, "function", "LOC", "function entry, with its arguments (repeatable)",
	  .list = &trace_args.what, .tag = TRACEPOINT_ENTRY },
	{ 'e', "exit", NULL, "also function exit, with return value and duration",
	  .flag = &trace_args.exit },
	{ 0, "probe", "LOC", "a single instruction; records only the time (repeatable)",
	  .list = &trace_args.what, .tag = TRACEPOINT_BARE },
	{ 0, "marker", "PROVIDER:NAME",
	  "a static marker (SDT), with its arguments; both parts may be globs (repeatable)",
	  .list = &trace_args.what, .tag = TRACEPOINT_BARE },
	{ 0, "wait", NULL, "also trace functions of libraries loaded later",
	  .flag = &trace_args.wait },
	{ 0, "explain", "LOC",
	  "trace nothing; show how a probe at LOC would be placed, with its code, or why it can't be",
	  .string = &trace_args.explain },

	OPTION_GROUP("Values and filters"),
	{ 't', "context", "TYPE",
	  "also record this context with every event (repeatable): regs, reg:rax, tid, pid, cpu, comm,\n"
	  "backtrace[:FRAMES], var:NAME (a variable or argument, with members: var:req->path),\n"
	  "arg0, $xmm0 or any expression, VARTYPE:NAME:ADDR (memory, as int, uint64_t, double, string...;\n"
	  "ADDR is a number, a symbol or an argument: string:sql:arg1)",
	  .list = &trace_args.contexts },
	{ 0, "string-max", "SIZE", "record at most SIZE bytes of a string (default: 256)",
	  .size = &trace_args.string_max },
	DEREF_OPTION(trace_args.deref),
	PROTOTYPES_OPTION(trace_args.prototypes_file),
	FLOATS_OPTION(trace_args.floats),
	{ 0, "filter", "EXPR",
	  "record only if this is true: 'size > 4K && path != NULL', 'str(arg0) == \"/etc/*\"',\n"
	  "with -e 'ret < 0 || duration > 5ms'",
	  .string = &trace_args.filter },
	{ 0, "min-duration", "TIME",
	  "with -e record only calls that take so long or longer (10us, 1ms, 2s), entry and exit;\n"
	  "nothing is recorded of the others",
	  .string = &trace_args.min_duration },
	{ 0, "only-inside", "LOC",
	  "record the others only while their thread is in a call of this function, which is recorded with\n"
	  "its exit",
	  .string = &trace_args.only_inside },
	{ 0, "depth", "N",
	  "with -e or --only-inside: record calls at most N levels inside of that function, or of the\n"
	  "outermost one that is traced",
	  .string = &trace_args.depth_text },
	{ 0, "every", "N", "record the first hit of each place and then every Nth",
	  .size = &trace_args.every },
	{ 0, "first", "N", "record the first N hits of each place", .size = &trace_args.first },
	{ 0, "rate", "N/s", "record at most N hits per second of each place",
	  .string = &trace_args.rate_text },

	OPTION_GROUP("Questions to --tracer count"),
	QUESTION_OPTIONS(trace_args.question),
	{ 0, "each", "SECONDS", "print the answer every so many seconds; also with a unit: 200ms",
	  .seconds = &trace_args.each },
	{ 0, "reset", NULL, "with --each: start from zero after each answer", .flag = &trace_args.reset },
	{ 0, "csv", NULL, "the answer as comma-separated values on standard output, with times in ns",
	  .flag = &trace_args.csv },

	OPTION_GROUP("Output and buffers"),
	{ 'o', "output", "DIR", "directory of the trace (default: ./NAME-DATE.dyntrace); a trace that is there\n"
	  "becomes DIR.old",
	  .string = &trace_args.output },
	{ 0, "tracer", "TRACER",
	  "action on each hit: ctf (record an event, the default); log[:FILE] (write a line of text to\n"
	  "the program's own standard output, or append it to FILE); count (count hits in the target, with\n"
	  "-e also durations); lttng (record an LTTng-UST event: dyntrace_lttng:tracepoint_hit,\n"
	  "function_entry and function_exit, or with -n NAME or --typed dyntrace:NAME, NAME_entry and\n"
	  "NAME_exit with all values); call:LIBRARY:FUNCTION (call a probe function of your own in the target)",
	  .string = &trace_args.tracer_text },
	SYNC_OPTION(trace_args.sync),
	{ 'n', "name", "NAME",
	  "the tracepoint's name (default: made from LOC); for the tracer lttng also PROVIDER:NAME",
	  .string = &trace_args.name },
	LTTNG_OPTIONS(trace_args.lttng),
	{ 0, "for", "SECONDS", "stop after this time; also with a unit: 200ms, 5m", .seconds = &trace_args.seconds },
	{ 0, "print", NULL, "print every event as a line of text, at once",
	  .flag = &trace_args.print },
	{ 0, "print-to", "FILE",
	  "the same, to FILE instead of standard output (/dev/stderr: standard error)",
	  .string = &trace_args.print_to },
	{ 0, "buffer-size", "SIZE", "memory for unwritten events (default: 64M)",
	  .size = &trace_args.buffer_size },
	{ 0, "mode", "MODE",
	  "if the buffer is full: discard and count new events, overwrite the oldest ones (the trace\n"
	  "gets the last events at the end, and DIR.snapshot-N at each SIGUSR1), or block the target for\n"
	  "up to 10 s until there is room (default: discard)",
	  .choice = &trace_args.mode, .choices = limit_modes },
	OVERHEAD_OPTION(trace_args.overhead_text),
	LIMIT_OPTIONS(trace_args.limit_args),
	{ 0, "snapshot-when", "EXPR",
	  "record in memory (--mode overwrite), and write DIR.snapshot-N when a hit makes this true:\n"
	  "'size > 1M', with -e 'ret == -1' or 'duration > 100ms'; --max-files N keeps the last N",
	  .string = &trace_args.snapshot_when },
	{ 0, "snapshot-every", "TIME",
	  "at most one snapshot of --snapshot-when in this time; further hits are counted (default: 10s)",
	  .seconds = &trace_args.snapshot_every },
	{ 0, "on-snapshot", "CMD",
	  "run this shell command after each snapshot, and if the target is killed by a signal in\n"
	  "overwrite mode; $DYNTRACE_SNAPSHOT is the directory, $DYNTRACE_SNAPSHOT_WHY the reason",
	  .string = &trace_args.on_snapshot },
	{ 0, "all-rows", NULL,
	  "show all tracepoints in the summary, also those without hits and beyond the first 40",
	  .flag = &trace_args.summary.all_rows },
	{ 0, "wide", NULL,
	  "show more columns in the summary: hits, lost, p50, p90 and calls without an exit",
	  .flag = &trace_args.summary.is_wide },
	{ 0, "json", NULL,
	  "print the summary as JSON, with times in ns; an answer to --by or --of goes to standard output",
	  .flag = &trace_args.summary.is_json },
	{ 'q', "quiet", NULL, "no summary at the end", .flag = &trace_args.quiet },
	OPTION_MEANT("duration", "--for"),
	OPTION_MEANT("time", "--for"),
	OPTION_MEANT("timeout", "--for"),
	OPTION_MEANT("seconds", "--for"),
	OPTION_MEANT("command", "-c"),
	OPTION_MEANT("process", "-p"),
	OPTION_MEANT("target", "-p"),
	OPTION_MEANT("entry", "--function"),
	OPTION_MEANT("symbol", "--function"),
	OPTION_MEANT("uprobe", "--function"),
	OPTION_MEANT("return", "--exit"),
	OPTION_MEANT("ret", "--exit"),
	OPTION_MEANT("usdt", "--marker"),
	OPTION_MEANT("sdt", "--marker"),
	OPTION_MEANT("slow", "--min-duration"),
	OPTION_MEANT("threshold", "--min-duration"),
	OPTION_MEANT("if", "--filter"),
	OPTION_MEANT("when", "--filter"),
	OPTION_MEANT("where", "--filter"),
	OPTION_MEANT("backtrace", "-t backtrace"),
	OPTION_MEANT("stack", "-t backtrace"),
	OPTION_MEANT("call-graph", "-t backtrace"),
	OPTION_MEANT("regs", "-t regs"),
	OPTION_MEANT("var", "-t var:NAME"),
	OPTION_MEANT("count", "--tracer count"),
	OPTION_MEANT("log", "--tracer log"),
	OPTION_MEANT("verbose", "--print"),
	OPTION_MEANT("budget", "--overhead"),
	OPTION_MEANT("inside", "--only-inside"),
	OPTION_MEANT("max-depth", "--depth"),
	OPTION_MEANT("size", "--max-size"),
	OPTION_MEANT("limit", "--max-size"),
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

static struct error *parse_rate(void)
{
	if (!trace_args.rate_text)
		return NULL;
	return error_wrap(options_rate(trace_args.rate_text, &trace_args.rate), "--rate");
}

static struct error *check_markers(void)
{
	for (size_t i = 0; i < trace_args.what.count; i++) {
		const struct option_value *value = &trace_args.what.items[i];

		if (strcmp(value->option->name, "marker") == 0 && !strchr(value->text, ':'))
			return error_new(
				ERROR_USAGE,
				"--marker: '%s' is not PROVIDER:NAME (quote globs: 'python:*')",
				value->text);
	}
	return NULL;
}

bool trace_args_need_libraries(void)
{
	const char *by = trace_args.question.by;

	if (by && (strstr(by, "backtrace") || strstr(by, "caller")))
		return true;
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
	if (!error && trace_args.sync)
		error = tracer_sync(trace_args.tracer, &trace_args.tracer);
	if (!error)
		error = tracer_check(trace_args.tracer, trace_args.tracer_argument);
	if (error)
		return trace_args.sync ? error : error_wrap(error, "--tracer");
	error = lttng_options_argument(&trace_args.lttng, trace_args.tracer_name,
				       trace_args.tracer_argument, &trace_args.identity);
	if (error)
		return error;
	trace_args.tracer_argument = trace_args.identity;
	if (!error && trace_args.tracer->kind == TRACER_CALL)
		error = client_absolute_function(trace_args.tracer_argument, &trace_args.function);
	if (!error && trace_args.tracer->kind == TRACER_SYNC && trace_args.tracer_argument)
		error = client_absolute(trace_args.tracer_argument, &trace_args.function);
	if (trace_args.function)
		trace_args.tracer_argument = trace_args.function;
	return error_wrap(error, "--tracer");
}

static struct error *check_limits(void)
{
	const struct limit_args *args = &trace_args.limit_args;

	if ((args->max_size || args->rotate > 0) && !trace_args.tracer->has_trace)
		return error_new(ERROR_USAGE, "%s: tracer '%s' writes no trace",
				 args->max_size ? "--max-size" : "--rotate",
				 trace_args.tracer->name);
	return limit_options_check(args, (enum session_mode)trace_args.mode, &trace_args.limits);
}

/* A budget needs to know what every hit costs, in one process and its children. */
static struct error *check_overhead(void)
{
	const struct {
		bool is_given;
		const char *name, *why;
	} others[] = {
		{ trace_args.question.by || trace_args.question.of, "--by and --of",
		  "a hit that is only counted has no key" },
		{ trace_args.mode == SESSION_OVERWRITE || trace_args.snapshot_when,
		  "--mode overwrite and --snapshot-when", "hits are known at the end only" },
		{ trace_args.follow_exec, "--follow-exec", "the budget is that of one program" },
	};
	struct error *error = overhead_option_parse(trace_args.overhead_text, &trace_args.overhead);

	trace_args.summary.overhead = trace_args.overhead;
	if (error || !trace_args.overhead)
		return error;
	if (trace_args.tracer->kind != TRACER_CTF && trace_args.tracer->kind != TRACER_COUNT)
		return error_new(ERROR_USAGE,
				 "--overhead: not with tracer '%s' (only with ctf and count)",
				 trace_args.tracer->name);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (others[i].is_given)
			return error_new(ERROR_USAGE, "--overhead: not with %s (%s)", others[i].name,
					 others[i].why);
	}
	return NULL;
}

/* The reader follows the calls of a plain trace: it must see all of them, in order. */
static struct error *check_nesting(void)
{
	const char *which = trace_args.only_inside ? "--only-inside" : "--depth";
	const struct {
		bool is_given;
		const char *name;
	} others[] = {
		{ trace_args.filter || trace_args.min_duration, "--filter and --min-duration" },
		{ trace_args.every || trace_args.first || trace_args.rate_text,
		  "--every, --first and --rate" },
		{ trace_args.mode == SESSION_OVERWRITE || trace_args.snapshot_when,
		  "--mode overwrite and --snapshot-when" },
		{ trace_args.follow_exec, "--follow-exec" },
		{ trace_args.overhead > 0, "--overhead" },
		{ trace_args.wait, "--wait" },
	};
	char *end = NULL;

	if (!trace_args.only_inside && !trace_args.depth_text)
		return NULL;
	if (trace_args.depth_text) {
		trace_args.depth = strtoul(trace_args.depth_text, &end, 10);
		if (*end || !strspn(trace_args.depth_text, "0123456789") || trace_args.depth > 65535)
			return error_new(ERROR_USAGE, "--depth: '%s' is not a number from 0 to 65535",
					 trace_args.depth_text);
	}
	if (!trace_args.only_inside && !trace_args.exit)
		return error_new(ERROR_USAGE, "--depth: needs -e or --only-inside LOC");
	if (trace_args.tracer->kind != TRACER_CTF)
		return error_new(ERROR_USAGE, "%s: not with tracer '%s' (only with ctf)", which,
				 trace_args.tracer->name);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (others[i].is_given)
			return error_new(ERROR_USAGE,
					 "%s: not with %s (it must see every call to know what is inside)",
					 which, others[i].name);
	}
	return NULL;
}

static struct error *check_words(const struct words *words)
{
	int targets = !!trace_args.command + !!trace_args.targets.count +
		      !!words->rest;

	if (words->count)
		return error_new(ERROR_USAGE, "unexpected argument '%s' (put the command after '--')",
				 words->items[0]);
	if (targets != 1)
		return error_new(ERROR_USAGE,
				 "%s (give one of -c COMMAND, -p TARGET and -- COMMAND)",
				 targets ? "more than one target" : "no target");
	if (trace_args.children && !trace_args.targets.count)
		return error_new(ERROR_USAGE, "--children: needs -p TARGET");
	if (trace_args.follow_daemons && trace_args.no_follow_fork)
		return error_new(ERROR_USAGE, "--follow-daemons: not with --no-follow-fork");
	if (words->rest && !words->rest[0])
		return error_new(ERROR_USAGE, "no command after '--'");
	if (!trace_args.what.count && !trace_args.explain)
		return error_new(
			ERROR_USAGE,
			"nothing to record (give --function LOC, --probe LOC or --marker PROVIDER:NAME)");
	if (trace_args.exit && !has_function())
		return error_new(ERROR_USAGE, "-e: needs --function LOC");
	if (trace_args.contexts.count > CONTEXTS_MAX)
		return error_new(ERROR_USAGE, "-t: at most %d contexts", CONTEXTS_MAX);
	if (trace_args.string_max > DT_STRING_MAX ||
	    (trace_args.string_max && trace_args.string_max < 8))
		return error_new(ERROR_USAGE, "--string-max: from 8 to %u", DT_STRING_MAX);
	if (trace_args.deref > DT_LISTS_MAX)
		return error_new(ERROR_USAGE, "--deref: from 0 to %u", DT_LISTS_MAX);
	if (trace_args.follow_exec && trace_args.tracer->kind != TRACER_CTF &&
	    trace_args.tracer->kind != TRACER_COUNT)
		return error_new(ERROR_USAGE,
				 "--follow-exec: not with tracer '%s' (only with ctf and count)",
				 trace_args.tracer->name);
	if (trace_args.output && !trace_args.tracer->has_trace)
		return error_new(ERROR_USAGE, "-o: tracer '%s' writes no trace",
				 trace_args.tracer->name);
	if (trace_args.buffer_size < DT_POOL_MIN || trace_args.buffer_size > DT_POOL_MAX)
		return error_new(ERROR_USAGE, "--buffer-size: from 1M to 4095M");
	struct error *error = trace_snapshot_check();
	if (!error)
		error = check_overhead();
	if (!error)
		error = check_nesting();
	if (!error)
		error = check_limits();
	return error ? error : check_markers();
}

struct error *trace_args_check(const struct words *words)
{
	struct error *error = parse_tracer();

	trace_args.print |= trace_args.print_to != NULL;
	if (!error)
		error = check_words(words);
	if (!error)
		error = prototype_options_read(trace_args.prototypes_file, &trace_args.prototypes);
	if (!error)
		error = trace_question_check();
	if (!error)
		error = min_duration_filter(trace_args.min_duration, trace_args.exit,
					    trace_args.filter, &trace_args.whole_filter);
	if (trace_args.filter || trace_args.min_duration)
		trace_args.summary.filters = !trace_args.min_duration ? "--filter" :
					     trace_args.filter ? "--filter and --min-duration" :
								 "--min-duration";
	trace_args.filter = trace_args.whole_filter;
	return error ? error : parse_rate();
}
