/*
 * cmd_status.c - dyntrace status: the daemon and its state.
 */
#include "daemon_call.h"

static struct {
	bool json;
} args;

static const struct option_spec options[] = {
	DAEMON_JSON_OPTION(&args.json, "a JSON object"),
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static void print_json(const struct wire_message *item, const char *user)
{
	struct strbuf text = { 0 };

	text_add(&text, "{");
	daemon_call_json_text(&text, "version", wire_get_text(item, WIRE_PROGRAM_VERSION));
	daemon_call_json_number(&text, "pid", wire_get_number(item, WIRE_PID, 0));
	daemon_call_json_text(&text, "user", user);
	daemon_call_json_text(&text, "socket", wire_get_text(item, WIRE_SOCKET_PATH));
	daemon_call_json_text(&text, "output", wire_get_text(item, WIRE_OUTPUT));
	text_add(&text, ",\"recording\":");
	text_add(&text, wire_get_number(item, WIRE_RECORDING, 0) ? "true" : "false");
	daemon_call_json_texts(&text, "stopped", item, WIRE_DETAIL);
	daemon_call_json_number(&text, "targets", wire_get_number(item, WIRE_TARGET_COUNT, 0));
	daemon_call_json_number(&text, "tracepoints",
				wire_get_number(item, WIRE_TRACEPOINT_COUNT, 0));
	daemon_call_json_number(&text, "waiting", wire_get_number(item, WIRE_WAITING_COUNT, 0));
	daemon_call_json_number(&text, "clients", wire_get_number(item, WIRE_CLIENT_COUNT, 0));
	text_add(&text, "}\n");
	text_flush(&text);
	strbuf_free(&text);
}

static void print_recording(const struct wire_message *item)
{
	const char *before = ", but stopped in ";
	struct wire_value value;

	cli_print("recording:   %s", daemon_call_number_of(item, WIRE_RECORDING) ?
					     "on" :
					     "off ('dyntrace start' starts it)");
	for (size_t at = 0; wire_next(item, &at, &value);) {
		if (value.tag != WIRE_DETAIL)
			continue;
		cli_print("%s%s", before, value.text);
		before = ", ";
	}
	cli_print("\n");
}

static struct error *print_status(void *context, const struct wire_message *item)
{
	char user[64];

	(void)context;
	daemon_call_user_name(wire_get_number(item, WIRE_UID, 0), user, sizeof(user));
	if (args.json) {
		print_json(item, user);
		return NULL;
	}
	cli_print("daemon:      dyntraced %s, pid %llu, user %s\n",
	       daemon_call_text_of(item, WIRE_PROGRAM_VERSION),
	       daemon_call_number_of(item, WIRE_PID), user);
	cli_print("socket:      %s\n", daemon_call_text_of(item, WIRE_SOCKET_PATH));
	cli_print("traces:      %s\n", daemon_call_text_of(item, WIRE_OUTPUT));
	print_recording(item);
	cli_print("targets:     %llu\n", daemon_call_number_of(item, WIRE_TARGET_COUNT));
	cli_print("tracepoints: %llu, and %llu waiting for a program\n",
	       daemon_call_number_of(item, WIRE_TRACEPOINT_COUNT),
	       daemon_call_number_of(item, WIRE_WAITING_COUNT));
	cli_print("clients:     %llu\n", daemon_call_number_of(item, WIRE_CLIENT_COUNT));
	return NULL;
}

static struct error *run(const struct words *words, int *ret_status)
{
	(void)ret_status;
	return daemon_call_target(words, DAEMON_NO_TARGET, WIRE_STATUS, false, print_status, NULL);
}

const struct command command_status = {
	.name = "status",
	.summary = "show the daemon: its user, its targets, the folder of its traces",
	.usage = "[OPTIONS]",
	.example = "dyntrace status",
	.options = options,
	.run = run,
};
