/*
 * cmd_add.c - dyntrace add TARGET:LOC [TRACER [ARGS...]]
 */
#include "cmd_add.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/program.h"

static struct {
	bool exit, function, wait, disabled, all;
	const char *name;
	const char *filter;
	struct option_values contexts;
	uint64_t every, first, string_max;
	const char *rate;
} args;

static const struct option_spec options[] = {
	OPTION_GROUP("What to record"),
	{ 'f', "function", NULL,
	  "a function's entry, with its arguments (without -f and -e: that it was reached)",
	  .flag = &args.function },
	{ 'e', "exit", NULL,
	  "a function's entry and exit, with arguments, return value and duration",
	  .flag = &args.exit },
	{ 'n', "name", "NAME", "what the tracepoint is called (default: as its location)",
	  .string = &args.name },
	{ 't', "context", "TYPE", "record this too (repeatable), as in add-context",
	  .list = &args.contexts },
	{ 0, "filter", "EXPR", "record only when this is true: 'size > 4096 && path != NULL'",
	  .string = &args.filter },
	{ 0, "every", "N", "record the first hit, and then every Nth", .size = &args.every },
	{ 0, "first", "N", "record the first N hits", .size = &args.first },
	{ 0, "rate", "N/s", "record at most N hits a second", .string = &args.rate },
	{ 0, "string-max", "SIZE", "bytes of a string that are recorded (default: 256)",
	  .size = &args.string_max },

	OPTION_GROUP("Where and when"),
	{ 0, "wait", NULL,
	  "if no program of that name runs, or its library isn't loaded: wait for it. For every later\n"
	  "process of that name, too",
	  .flag = &args.wait },
	{ 0, "disabled", NULL, "place it, but switch it off", .flag = &args.disabled },
	ASK_ALL_OPTION(&args.all),
	ASK_SOCKET_OPTION,
	{ 0 },
};

struct error *add_parse_rate(const char *text, uint64_t *ret_rate)
{
	char *end;

	if (!text)
		return NULL;
	errno = 0;
	*ret_rate = strtoull(text, &end, 10);
	if (errno || end == text || (strcmp(end, "/s") != 0 && *end) || *ret_rate == 0)
		return error_new(ERROR_USAGE, "--rate: '%s' isn't a number a second, such as 100/s",
				 text);
	return NULL;
}

/* ---- the request ----------------------------------------------------------------------------- */

static void write_number(struct wire_out *out, enum wire_tag tag, uint64_t value)
{
	if (value)
		wire_number(out, tag, value);
}

static struct error *write_request(struct client *client, const struct add_request *request)
{
	struct wire_out *out = daemon_call_begin(client, WIRE_ADD, request->target, request->all);

	wire_text(out, WIRE_LOCATION, request->location);
	wire_number(out, WIRE_SHAPE, request->shape);
	wire_text(out, WIRE_NAME, request->name);
	wire_text(out, WIRE_FILTER, request->filter);
	for (size_t i = 0; request->contexts && i < request->contexts->count; i++)
		wire_text(out, WIRE_CONTEXT_TYPE, request->contexts->items[i].text);
	wire_text(out, WIRE_TRACER, request->tracer);
	write_number(out, WIRE_EVERY, request->every);
	write_number(out, WIRE_FIRST, request->first);
	write_number(out, WIRE_RATE, request->rate);
	write_number(out, WIRE_STRING_MAX, request->string_max);
	write_number(out, WIRE_WAIT, request->wait);
	write_number(out, WIRE_DISABLED, request->disabled);
	return client_write_arguments(out, request->tracer, request->arguments,
				      request->argument_count);
}

struct printing {
	bool with_pid, quiet;
};

static struct error *print_name(void *context, const struct wire_message *item)
{
	const struct printing *printing = context;
	const char *name = wire_get_text(item, WIRE_NAME);
	unsigned long long pid = wire_get_number(item, WIRE_PID, 0);

	if (!name || printing->quiet)
		return NULL;
	if (printing->with_pid && pid)
		printf("%llu:", pid);
	puts(name);
	return NULL;
}

struct error *add_tracepoint(const struct add_request *request, bool quiet)
{
	_cleanup_client_ struct client *client = NULL;
	struct printing printing = { .with_pid = request->all, .quiet = quiet };

	if (request->string_max > DT_STRING_MAX || (request->string_max && request->string_max < 8))
		return error_new(ERROR_USAGE, "--string-max: from 8 to %u", DT_STRING_MAX);
	struct error *error = daemon_call_connect(&client);
	if (!error)
		error = write_request(client, request);
	return error ? error : daemon_call_finish(client, print_name, &printing);
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_free_ char *target = NULL;
	struct add_request request = { .name = args.name,
				       .filter = args.filter,
				       .contexts = &args.contexts,
				       .every = args.every,
				       .first = args.first,
				       .string_max = args.string_max,
				       .wait = args.wait,
				       .disabled = args.disabled,
				       .all = args.all };

	(void)ret_status;
	if (!words->count)
		return error_new(ERROR_USAGE,
				 "give TARGET:LOC, and then the tracer (default: ctf)");
	struct error *error = add_parse_rate(args.rate, &request.rate);
	if (!error)
		error = daemon_call_split(words->items[0], "LOC", &target, &request.location);
	if (error)
		return error;
	request.target = target;
	request.shape = args.exit ? WIRE_FUNCTION : args.function ? WIRE_ENTRY : WIRE_BARE;
	if (words->count > 1) {
		request.tracer = words->items[1];
		request.arguments = words->items + 2;
		request.argument_count = words->count - 2;
	}
	return add_tracepoint(&request, false);
}

const struct command command_add = {
	.name = "add",
	.summary = "add a tracepoint to a running process; prints its name",
	.usage = "[OPTIONS] TARGET:LOC [TRACER [ARGS...]]",
	.details =
		"The agent is put in where it isn't. TRACER is what becomes of a hit:\n"
		"  ctf [DIR]              an event in a CTF trace (the default); all of a process's go to one trace\n"
		"  log [FILE]             a line of text in FILE, or on the process's own stdout\n"
		"  lttng                  an LTTng-UST event\n"
		"  count                  nothing but hits, and with -e a histogram of durations\n"
		"  call LIBRARY:FUNCTION  a call of a function of yours",
	.example = "dyntrace add redis-server:processCommand ctf\n"
		   "dyntrace add -e -n write 1234:write@libc.so.6 --filter 'nbytes > 4096'\n"
		   "dyntrace add --wait nginx:ngx_http_process_request -f",
	.options = options,
	.run = run,
};
