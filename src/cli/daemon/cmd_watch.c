/*
 * cmd_watch.c - dyntrace watch [TARGET]: notifications, one per line.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "control/launch/user_command.h"
#include "daemon_call.h"

static struct {
	bool json;
	struct user_command on_snapshot;
} args;

static const struct option_spec options[] = {
	DAEMON_JSON_OPTION(&args.json, "one JSON object per line"),
	{ 0, "on-snapshot", "CMD",
	  "run this shell command after each snapshot, and if a process in overwrite mode is killed by a\n"
	  "signal; $DYNTRACE_SNAPSHOT is the directory, $DYNTRACE_SNAPSHOT_WHY the reason, $DYNTRACE_PID\n"
	  "the process",
	  .string = &args.on_snapshot.text },
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static void add_json(struct strbuf *text, const struct wire_message *event)
{
	text_add(text, "{");
	daemon_call_json_number(text, "ns", wire_get_number(event, WIRE_TIME, 0));
	daemon_call_json_number(text, "pid", wire_get_number(event, WIRE_PID, 0));
	daemon_call_json_text(text, "name", wire_get_text(event, WIRE_PROGRAM));
	daemon_call_json_text(text, "event", wire_get_text(event, WIRE_EVENT_NAME));
	daemon_call_json_text(text, "detail", wire_get_text(event, WIRE_DETAIL));
	daemon_call_json_text(text, "trace", wire_get_text(event, WIRE_OUTPUT));
	text_add(text, "}\n");
}

static void add_line(struct strbuf *text, const struct wire_message *event)
{
	uint64_t ns = wire_get_number(event, WIRE_TIME, 0);
	time_t seconds = (time_t)(ns / 1000000000);
	const char *detail = wire_get_text(event, WIRE_DETAIL),
		   *trace = wire_get_text(event, WIRE_OUTPUT);
	char clock[16];
	struct tm tm;

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &tm));
	quote_format(text, "%s.%06llu %llu %s %s%s%s%s%s\n", clock,
		      (unsigned long long)(ns % 1000000000 / 1000),
		      (unsigned long long)wire_get_number(event, WIRE_PID, 0),
		      daemon_call_text_of(event, WIRE_PROGRAM),
		      daemon_call_text_of(event, WIRE_EVENT_NAME), detail ? ": " : "",
		      detail ? detail : "", trace ? ": " : "", trace ? trace : "");
}

/* The command runs with this user's rights, and for one snapshot at a time. */
static void run_command(const struct wire_message *event)
{
	const char *trace = wire_get_text(event, WIRE_OUTPUT);

	if (!args.on_snapshot.text || !trace ||
	    strcmp(daemon_call_text_of(event, WIRE_EVENT_NAME), "snapshot") != 0)
		return;
	int failed = user_command_start(&args.on_snapshot, trace,
					daemon_call_text_of(event, WIRE_DETAIL),
					(pid_t)wire_get_number(event, WIRE_PID, 0));
	if (failed == EBUSY)
		cli_note("--on-snapshot: not run for %s: the command still runs for the one before",
			 trace);
	else if (failed)
		cli_note("--on-snapshot: cannot start the command: %s", strerror(failed));
}

/* Flushes each line: a reader of a pipe waits for it. */
static struct error *print_event(void *context, const struct wire_message *event)
{
	struct strbuf text = { 0 };

	(void)context;
	if (event->kind != WIRE_EVENT)
		return NULL;
	(args.json ? add_json : add_line)(&text, event);
	bool written = text_flush(&text) && !fflush(stdout);
	strbuf_free(&text);
	run_command(event);
	return written ? NULL : error_errno(errno, "cannot write the events");
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_client_ struct client *client = NULL;

	(void)ret_status;
	struct error *error = daemon_call_check_words(words, DAEMON_ANY_TARGET);
	if (!error)
		error = daemon_call_connect(&client);
	if (error)
		return error;
	daemon_call_begin(client, WIRE_WATCH, words->count ? words->items[0] : NULL, false);
	wire_end(client_out(client));
	error = client_call(client, print_event, NULL);
	return error ? error : client_listen(client, print_event, NULL);
}

const struct command command_watch = {
	.name = "watch",
	.summary = "print notifications about processes with the agent, one per line",
	.usage = "[OPTIONS] [TARGET]",
	.details =
		"Runs until Ctrl-C or the daemon's end. Notifications: attached, detached, exited (with the\n"
		"status), failed (recording ended, with the reason), buffer-full, lost, snapshot (with its reason\n"
		"and its directory), snapshot-failed, module-loaded, module-unloaded, marker-loaded and\n"
		"static-tracepoint-loaded (SDT markers and LTTng's own tracepoints, which came with a library),\n"
		"tracepoint-placed, tracepoint-gone, tracepoint-failed (a signal in a probe function of the\n"
		"tracer call).",
	.example = "dyntrace watch redis-server\n"
		   "dyntrace watch --json",
	.options = options,
	.run = run,
};
