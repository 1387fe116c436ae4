/*
 * cmd_add.c - dyntrace add TARGET:LOC [TRACER [ARGS...]]
 */
#include "cmd_add.h"

#include <string.h>

#include "control/event/tracer.h"
#include "options/lttng_options.h"
#include "options/min_duration.h"
#include "options/prototype_options.h"
#include "options/question_options.h"
#include "options/limit_options.h"
#include "shared/program.h"

static struct {
	bool exit, function, wait, disabled, all;
	const char *name;
	const char *filter;
	const char *min_duration;
	struct option_values contexts;
	uint64_t every, first, string_max, deref;
	const char *rate;
	struct question_args question;
	struct lttng_args lttng;
	const char *prototypes;
	int floats;
	bool sync;
	const char *snapshot_when;
	double snapshot_every;
	struct recording_args recording;
} args = { .recording.mode = -1 };

static const struct option_spec options[] = {
	OPTION_GROUP("What to record"),
	{ 'f', "function", NULL,
	  "function entry, with its arguments (without -f and -e: a bare probe)",
	  .flag = &args.function },
	{ 'e', "exit", NULL, "function entry and exit, with arguments, return value and duration",
	  .flag = &args.exit },
	{ 'n', "name", "NAME",
	  "the tracepoint's name (default: made from LOC); for the tracer lttng also PROVIDER:NAME",
	  .string = &args.name },
	{ 't', "context", "TYPE", "also record this context (repeatable), as in add-context",
	  .list = &args.contexts },
	{ 0, "filter", "EXPR", "record only when this is true: 'size > 4096 && path != NULL'",
	  .string = &args.filter },
	{ 0, "min-duration", "TIME",
	  "with -e record only calls that take so long or longer (10us, 1ms, 2s), entry and exit",
	  .string = &args.min_duration },
	PROTOTYPES_OPTION(args.prototypes),
	FLOATS_OPTION(args.floats),
	DEREF_OPTION(args.deref),
	{ 0, "every", "N", "record the first hit and then every Nth", .size = &args.every },
	{ 0, "first", "N", "record the first N hits", .size = &args.first },
	{ 0, "rate", "N/s", "record at most N hits per second", .string = &args.rate },
	{ 0, "string-max", "SIZE", "record at most SIZE bytes of a string (default: 256)",
	  .size = &args.string_max },

	OPTION_GROUP("Snapshots, and how the process is recorded if add attaches it"),
	{ 0, "snapshot-when", "EXPR",
	  "record in memory (--mode overwrite), and write a snapshot beside the trace when a hit makes\n"
	  "this true: 'size > 1M', with -e 'ret == -1' or 'duration > 100ms'; 'dyntrace watch' tells",
	  .string = &args.snapshot_when },
	{ 0, "snapshot-every", "TIME",
	  "at most one such snapshot of the process in this time; further hits are counted (default: 10s)",
	  .seconds = &args.snapshot_every },
	RECORDING_OPTIONS(args.recording),

	OPTION_GROUP("With the tracer log"),
	SYNC_OPTION(args.sync),

	OPTION_GROUP("With the tracer lttng"),
	LTTNG_OPTIONS(args.lttng),

	OPTION_GROUP("With the tracer count (list-tracepoints shows the rows)"),
	QUESTION_ASKS(args.question),
	QUESTION_KEEPS(args.question),

	OPTION_GROUP("Where and when"),
	{ 0, "wait", NULL,
	  "wait for a program that doesn't run yet or a library that isn't loaded yet; also add the\n"
	  "tracepoint to every later process of that name",
	  .flag = &args.wait },
	{ 0, "disabled", NULL, "place the tracepoint, but switch it off", .flag = &args.disabled },
	DAEMON_ALL_OPTION(&args.all),
	DAEMON_SOCKET_OPTION,
	OPTIONS_OF_TRACE,
	{ 0 },
};

/* ---- request - ----------------------------------------------------------------------------- */

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
	wire_text(out, WIRE_PROTOTYPES, request->prototypes);
	write_number(out, WIRE_FLOATS, request->floats);
	write_number(out, WIRE_SYNC, request->sync);
	for (size_t i = 0; request->contexts && i < request->contexts->count; i++)
		wire_text(out, WIRE_CONTEXT_TYPE, request->contexts->items[i].text);
	wire_text(out, WIRE_TRACER, request->tracer);
	write_number(out, WIRE_EVERY, request->every);
	write_number(out, WIRE_FIRST, request->first);
	write_number(out, WIRE_RATE, request->rate);
	write_number(out, WIRE_STRING_MAX, request->string_max);
	write_number(out, WIRE_DEREF, request->deref);
	wire_text(out, WIRE_BY, request->by);
	wire_text(out, WIRE_OF, request->of);
	write_number(out, WIRE_KEYS, request->by || request->of ? request->keys : 0);
	write_number(out, WIRE_WAIT, request->wait);
	write_number(out, WIRE_DISABLED, request->disabled);
	wire_text(out, WIRE_SNAPSHOT_WHEN, args.snapshot_when);
	write_number(out, WIRE_SNAPSHOT_EVERY, (uint64_t)(args.snapshot_every * 1e9 + 0.5));
	limit_options_write(&args.recording, out);
	return client_write_arguments(out, request->tracer, request->arguments,
				      request->argument_count);
}

static struct error *print_name(void *context, const struct wire_message *item)
{
	const bool *with_pid = context;
	const char *name = wire_get_text(item, WIRE_NAME);
	unsigned long long pid = wire_get_number(item, WIRE_PID, 0);

	if (!name)
		return NULL;
	if (*with_pid && pid)
		cli_print("%llu:", pid);
	cli_print("%s\n", name);
	return NULL;
}

static struct error *add(const struct add_request *request, daemon_item_fn item, void *context)
{
	_cleanup_client_ struct client *client = NULL;

	if (request->string_max > DT_STRING_MAX || (request->string_max && request->string_max < 8))
		return error_new(ERROR_USAGE, "--string-max: from 8 to %u", DT_STRING_MAX);
	if (request->deref > DT_LISTS_MAX)
		return error_new(ERROR_USAGE, "--deref: from 0 to %u", DT_LISTS_MAX);
	struct error *error = limit_options_check_recording(&args.recording);
	if (!error)
		error = daemon_call_connect(&client);
	if (!error)
		error = write_request(client, request);
	return error ? error : daemon_call_finish(client, item, context);
}

struct naming {
	add_name_fn named;
	void *context;
};

static struct error *take_name(void *context, const struct wire_message *item)
{
	const struct naming *naming = context;
	const char *name = wire_get_text(item, WIRE_NAME);

	return name && naming->named ? naming->named(naming->context, name) : NULL;
}

struct error *add_tracepoint(const struct add_request *request, add_name_fn named, void *context)
{
	struct naming naming = { named, context };

	return add(request, take_name, &naming);
}

/* Refuses here what the daemon would refuse later. */
static struct error *check_question(const char *tracer)
{
	struct question question = { 0 };
	struct error *error = question_options_read(&args.question, &question);
	bool asks = args.question.by || args.question.of;

	if (error)
		return error;
	question_free(&question);
	if (!asks && args.question.keys_text)
		return error_new(ERROR_USAGE, "--keys: needs --by KEY or --of VALUE");
	if (asks && (!tracer || strcmp(tracer, "count") != 0))
		return error_new(ERROR_USAGE, "%s: needs the tracer count (TARGET:LOC count %s ...)",
				 args.question.by ? "--by" : "--of",
				 args.question.by ? "--by" : "--of");
	return NULL;
}

static struct error *check_snapshots(const char *tracer)
{
	if (args.snapshot_every > 0 && !args.snapshot_when)
		return error_new(ERROR_USAGE, "--snapshot-every: needs --snapshot-when EXPR");
	if (args.snapshot_when && args.recording.mode >= 0 &&
	    args.recording.mode != SESSION_OVERWRITE)
		return error_new(ERROR_USAGE, "--snapshot-when: not with --mode %s",
				 limit_modes[args.recording.mode]);
	if (args.snapshot_when && tracer && strcmp(tracer, "ctf") != 0)
		return error_new(ERROR_USAGE, "--snapshot-when: not with tracer '%s' (only with ctf)",
				 tracer);
	return NULL;
}

static struct error *check_sync(const struct add_request *request)
{
	const struct tracer *tracer;
	struct error *error = args.sync ? tracer_find(request->tracer, &tracer) : NULL;

	if (!error && args.sync)
		error = tracer_sync(tracer, &tracer);
	if (!error && args.sync && request->argument_count)
		error = tracer_check(tracer, request->arguments[0]);
	return error;
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_free_ char *target = NULL, *filter = NULL;
	struct add_request request = { .name = args.name,
				       .contexts = &args.contexts,
				       .every = args.every,
				       .first = args.first,
				       .string_max = args.string_max,
				       .deref = args.deref,
				       .wait = args.wait,
				       .disabled = args.disabled,
				       .all = args.all };

	(void)ret_status;
	if (!words->count)
		return error_new(ERROR_USAGE,
				 "give TARGET:LOC and optionally a tracer (default: ctf)");
	struct error *error = args.rate ? options_rate(args.rate, &request.rate) : NULL;
	if (error)
		error = error_wrap(error, "--rate");
	else
		error = daemon_call_split(words->items[0], "LOC", &target, &request.location);
	if (!error)
		error = min_duration_filter(args.min_duration, args.exit, args.filter, &filter);
	if (error)
		return error;
	request.filter = filter;
	request.target = target;
	request.shape = args.exit ? WIRE_FUNCTION : args.function ? WIRE_ENTRY : WIRE_BARE;
	if (words->count > 1) {
		request.tracer = words->items[1];
		request.arguments = words->items + 2;
		request.argument_count = words->count - 2;
	}
	error = check_question(request.tracer);
	if (!error)
		error = check_snapshots(request.tracer);
	if (!error)
		error = check_sync(&request);
	if (error)
		return error;
	_cleanup_free_ char *identity = NULL;
	if (request.argument_count <= 1)
		error = lttng_options_argument(&args.lttng, request.tracer,
					       request.argument_count ? request.arguments[0] : NULL,
					       &identity);
	if (error)
		return error;
	_cleanup_free_ char *prototypes = NULL;
	error = prototype_options_read(args.prototypes, &prototypes);
	if (error)
		return error;
	request.prototypes = prototypes;
	request.floats = floats_size(args.floats);
	request.sync = args.sync;
	if (identity) {
		request.arguments = &identity;
		request.argument_count = 1;
	}
	request.by = args.question.by;
	request.of = args.question.of;
	request.keys = args.question.keys;
	return add(&request, print_name, &request.all);
}

const struct command command_add = {
	.name = "add",
	.summary = "add a tracepoint to a running process; prints its name",
	.usage = "[OPTIONS] TARGET:LOC [TRACER [ARGS...]]",
	.details =
		"Injects the agent if needed. TRACER is the action on each hit:\n"
		"  ctf [DIR]              record an event in the process's CTF trace (the default)\n"
		"  log [FILE]             write a line of text to FILE or the process's own stdout;\n"
		"                         with --sync at the hit itself\n"
		"  lttng                  record an LTTng-UST event: dyntrace_lttng:tracepoint_hit,\n"
		"                         function_entry, function_exit with the address; with -n NAME or\n"
		"                         --typed dyntrace:NAME, NAME_entry and NAME_exit with all values\n"
		"  count                  count hits, with -e also a histogram of durations; no events;\n"
		"                         by key with --by and --of\n"
		"  call LIBRARY:FUNCTION  call a probe function of your own",
	.example = "dyntrace add redis-server:processCommand ctf\n"
		   "dyntrace add -e -n write 1234:write@libc.so.6 --filter 'nbytes > 4096'\n"
		   "dyntrace add -e app:open@libc.so.6 count --by file\n"
		   "dyntrace add -e redis-server:call --snapshot-when 'duration > 10ms'\n"
		   "dyntrace add --wait nginx:ngx_http_process_request -f",
	.options = options,
	.run = run,
};
