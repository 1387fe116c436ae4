/*
 * status.c - dyntrace status: which daemon, and how it is.
 */
#include "ask.h"

static struct {
	bool json;
} args;

static const struct option_spec options[] = {
	ASK_JSON_OPTION(&args.json, "a JSON object"),
	ASK_SOCKET_OPTION,
	{ 0 },
};

static void print_json(const struct wire_message *item, const char *user)
{
	struct strbuf text = { 0 };

	text_add(&text, "{");
	ask_json_text(&text, "version", wire_get_text(item, WIRE_PROGRAM_VERSION));
	ask_json_number(&text, "pid", wire_get_number(item, WIRE_PID, 0));
	ask_json_text(&text, "user", user);
	ask_json_text(&text, "socket", wire_get_text(item, WIRE_SOCKET_PATH));
	ask_json_text(&text, "output", wire_get_text(item, WIRE_OUTPUT));
	text_add(&text, ",\"recording\":");
	text_add(&text, wire_get_number(item, WIRE_RECORDING, 0) ? "true" : "false");
	ask_json_number(&text, "targets", wire_get_number(item, WIRE_TARGET_COUNT, 0));
	ask_json_number(&text, "tracepoints", wire_get_number(item, WIRE_TRACEPOINT_COUNT, 0));
	ask_json_number(&text, "waiting", wire_get_number(item, WIRE_WAITING_COUNT, 0));
	ask_json_number(&text, "clients", wire_get_number(item, WIRE_CLIENT_COUNT, 0));
	text_add(&text, "}\n");
	text_flush(&text);
	strbuf_free(&text);
}

static const char *text_of(const struct wire_message *item, enum wire_tag tag)
{
	const char *text = wire_get_text(item, tag);

	return text ? text : "";
}

static unsigned long long number_of(const struct wire_message *item, enum wire_tag tag)
{
	return wire_get_number(item, tag, 0);
}

static struct error *print_status(void *context, const struct wire_message *item)
{
	char user[64];

	(void)context;
	ask_user_name(wire_get_number(item, WIRE_UID, 0), user, sizeof(user));
	if (args.json) {
		print_json(item, user);
		return NULL;
	}
	printf("daemon:      dyntraced %s, pid %llu, user %s\n", text_of(item, WIRE_PROGRAM_VERSION),
	       number_of(item, WIRE_PID), user);
	printf("socket:      %s\n", text_of(item, WIRE_SOCKET_PATH));
	printf("traces:      %s\n", text_of(item, WIRE_OUTPUT));
	printf("recording:   %s\n", number_of(item, WIRE_RECORDING) ? "on" : "off ('dyntrace start' begins)");
	printf("targets:     %llu\n", number_of(item, WIRE_TARGET_COUNT));
	printf("tracepoints: %llu, and %llu that wait for a program\n", number_of(item, WIRE_TRACEPOINT_COUNT),
	       number_of(item, WIRE_WAITING_COUNT));
	printf("clients:     %llu\n", number_of(item, WIRE_CLIENT_COUNT));
	return NULL;
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_client_ struct client *client = NULL;

	(void)ret_status;
	if (words->count)
		return error_new(ERROR_USAGE, "unexpected word '%s'", words->items[0]);
	struct error *error = ask_connect(&client);
	if (error)
		return error;
	ask_begin(client, WIRE_STATUS, NULL, false);
	return ask_finish(client, print_status, NULL);
}

const struct command command_status = {
	.name = "status",
	.summary = "show the daemon: its user, its targets, where traces go",
	.usage = "[OPTIONS]",
	.example = "dyntrace status",
	.options = options,
	.run = run,
};
