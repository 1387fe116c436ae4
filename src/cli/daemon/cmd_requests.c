/*
 * cmd_requests.c - commands that are one request to the daemon: attach; rm, enable, disable;
 * start, stop, flush, snapshot; load, unload.
 *
 * They share their options and differ in the kind of the request and in their words: TARGET,
 * [TARGET], TARGET:NAME or TARGET LIBRARY, one function for each form.
 */
#include "daemon_call.h"
#include "options/limit_options.h"

static struct {
	bool all;
	double last;
	struct recording_args recording;
} args = { .recording.mode = -1 };

static const struct option_spec options[] = {
	DAEMON_ALL_OPTION(&args.all),
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static const struct option_spec attach_options[] = {
	RECORDING_OPTIONS(args.recording),
	DAEMON_ALL_OPTION(&args.all),
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static const struct option_spec snapshot_options[] = {
	{ 0, "last", "TIME", "only the events of this time before now: 5s, 200ms", .seconds = &args.last },
	DAEMON_ALL_OPTION(&args.all),
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

/* ---- forms ----------------------------------------------------------------------------------- */

/* How the process is recorded: attach. The time: snapshot. */
static void write_more(struct wire_out *out)
{
	limit_options_write(&args.recording, out);
	if (args.last > 0)
		wire_number(out, WIRE_LAST, (uint64_t)(args.last * 1e9 + 0.5));
}

/* A snapshot's answer has the directory of its trace. */
static struct error *print_output(void *context, const struct wire_message *item)
{
	const char *output = wire_get_text(item, WIRE_OUTPUT);

	(void)context;
	if (output)
		cli_print("%s\n", output);
	return NULL;
}

static struct error *request_more(const struct words *words, enum daemon_words wanted,
				  unsigned kind)
{
	_cleanup_client_ struct client *client = NULL;
	struct error *error = daemon_call_check_words(words, wanted);

	if (!error)
		error = limit_options_check_recording(&args.recording);
	if (!error)
		error = daemon_call_connect(&client);
	if (error)
		return error;
	write_more(daemon_call_begin(client, kind, words->count ? words->items[0] : NULL,
				     args.all));
	return daemon_call_finish(client, print_output, NULL);
}

static struct error *request_target(const struct words *words, unsigned kind)
{
	return request_more(words, DAEMON_ONE_TARGET, kind);
}

static struct error *request_any_target(const struct words *words, unsigned kind)
{
	return request_more(words, DAEMON_ANY_TARGET, kind);
}

static struct error *request_tracepoint(const struct words *words, unsigned kind)
{
	struct daemon_request request = { .kind = kind, .all = args.all };
	_cleanup_free_ char *target = NULL;
	const char *name;

	if (words->count != 1)
		return error_new(ERROR_USAGE, "give one TARGET:NAME");
	struct error *error = daemon_call_split(words->items[0], "NAME", &target, &name);
	if (error)
		return error;
	request.target = target;
	request.texts[0] = (struct daemon_text){ WIRE_NAME, name };
	return daemon_call_request(&request, NULL, NULL);
}

static struct error *request_library(const struct words *words, unsigned kind)
{
	struct daemon_request request = { .kind = kind, .all = args.all };
	_cleanup_free_ char *library = NULL;

	if (words->count != 2)
		return error_new(ERROR_USAGE, "give a TARGET and a LIBRARY");
	struct error *error = client_absolute_library(words->items[1], &library);
	if (error)
		return error;
	request.target = words->items[0];
	request.texts[0] = (struct daemon_text){ WIRE_LIBRARY, library };
	return daemon_call_request(&request, NULL, NULL);
}

/* ---- commands -------------------------------------------------------------------------------- */

const struct command command_attach = {
	.name = "attach",
	.summary = "inject the agent into a process",
	.usage = "[OPTIONS] TARGET",
	.details =
		"The process stops for a moment and goes on with the agent, which does nothing until\n"
		"tracepoints are added. 'dyntrace add' attaches by itself if needed; programs that are\n"
		"linked with the agent or preload it need no attach. Attaching twice is no error. The options\n"
		"say how the process is recorded until 'dyntrace detach'.",
	.example = "dyntrace attach redis-server\n"
		   "dyntrace attach --mode overwrite --buffer-size 16M redis-server\n"
		   "dyntrace attach --overhead 5% redis-server",
	.options = attach_options,
	.request = request_target,
	.request_kind = WIRE_ATTACH,
};

#define NAME_TEXT "NAME is a tracepoint's name or a glob (quote it): * ? [a-z]."

const struct command command_rm = {
	.name = "rm",
	.summary = "remove tracepoints from a process",
	.usage = "[OPTIONS] TARGET:NAME",
	.details =
		"Restores the code and frees the name. Recorded events stay in the trace. " NAME_TEXT,
	.example = "dyntrace rm redis-server:processCommand\n"
		   "dyntrace rm 'redis-server:*'",
	.options = options,
	.request = request_tracepoint,
	.request_kind = WIRE_REMOVE,
};

const struct command command_enable = {
	.name = "enable",
	.summary = "switch tracepoints on",
	.usage = "[OPTIONS] TARGET:NAME",
	.details = "Doesn't stop the process. " NAME_TEXT,
	.example = "dyntrace enable redis-server:processCommand",
	.options = options,
	.request = request_tracepoint,
	.request_kind = WIRE_ENABLE,
};

const struct command command_disable = {
	.name = "disable",
	.summary = "switch tracepoints off, but leave them in place",
	.usage = "[OPTIONS] TARGET:NAME",
	.details =
		"Doesn't stop the process. A disabled tracepoint costs next to nothing. " NAME_TEXT,
	.example = "dyntrace disable 'redis-server:*'",
	.options = options,
	.request = request_tracepoint,
	.request_kind = WIRE_DISABLE,
};

#define ALL_TEXT "Without TARGET: every process that you may trace."
#define LATER_TEXT " For root and the daemon's own user this includes processes that start later."

const struct command command_start = {
	.name = "start",
	.summary = "start recording, after 'stop' or with a daemon started with --stopped",
	.usage = "[OPTIONS] [TARGET]",
	.details = ALL_TEXT LATER_TEXT,
	.example = "dyntrace start\n"
		   "dyntrace start redis-server",
	.options = options,
	.request = request_any_target,
	.request_kind = WIRE_START,
};

const struct command command_stop = {
	.name = "stop",
	.summary = "stop recording until 'start'; tracepoints stay in place",
	.usage = "[OPTIONS] [TARGET]",
	.details = ALL_TEXT LATER_TEXT,
	.example = "dyntrace stop",
	.options = options,
	.request = request_any_target,
	.request_kind = WIRE_STOP,
};

const struct command command_flush = {
	.name = "flush",
	.summary = "write all recorded events to the traces now",
	.usage = "[OPTIONS] [TARGET]",
	.details =
		"When flush returns, the trace has every event recorded before. Without flush, events are\n"
		"written a moment after they are recorded. " ALL_TEXT,
	.example = "dyntrace flush redis-server",
	.options = options,
	.request = request_any_target,
	.request_kind = WIRE_FLUSH,
};

const struct command command_snapshot = {
	.name = "snapshot",
	.summary = "write the buffers of a flight recorder to a trace of their own",
	.usage = "[OPTIONS] [TARGET]",
	.details =
		"For processes in overwrite mode ('dyntrace attach --mode overwrite', or dyntraced's --mode).\n"
		"Prints the new trace's directory. Recording goes on. " ALL_TEXT,
	.example = "dyntrace snapshot redis-server\n"
		   "dyntrace snapshot --last 5s redis-server",
	.options = snapshot_options,
	.request = request_any_target,
	.request_kind = WIRE_SNAPSHOT,
};

const struct command command_load = {
	.name = "load",
	.summary = "load a library of probe functions into a process",
	.usage = "[OPTIONS] TARGET LIBRARY",
	.details =
		"The process's own loader opens the library, so the process's user must be able to read\n"
		"the file; constructors run. Only root may load into processes of other users. Tracepoints\n"
		"with the tracer 'call LIBRARY:FUNCTION' call its functions, and load it if needed. See\n"
		"<dyntrace/probe.h> for how to write one.",
	.example = "dyntrace load redis-server ./libprobes.so\n"
		   "dyntrace add redis-server:processCommand call libprobes.so:on_command",
	.options = options,
	.request = request_library,
	.request_kind = WIRE_LOAD,
};

const struct command command_unload = {
	.name = "unload",
	.summary = "unload a library of probe functions from a process",
	.usage = "[OPTIONS] TARGET LIBRARY",
	.details =
		"LIBRARY is a path or a file name. Remove the tracepoints that use the library first.\n"
		"'detach' unloads all libraries that dyntrace loaded.",
	.example = "dyntrace unload redis-server libprobes.so",
	.options = options,
	.request = request_library,
	.request_kind = WIRE_UNLOAD,
};
