/*
 * list_processes.c - dyntrace list-processes: every process with the agent.
 */
#include "ask.h"

static struct {
	bool json;
} args;

static const struct option_spec options[] = {
	ASK_JSON_OPTION(&args.json, "a JSON array with an object for each process"),
	ASK_SOCKET_OPTION,
	{ 0 },
};

struct listing {
	struct strbuf text;
	size_t count;
};

static void add_json(struct strbuf *text, const struct wire_message *item, const char *user)
{
	text_add(text, "{");
	ask_json_number(text, "pid", wire_get_number(item, WIRE_PID, 0));
	ask_json_text(text, "name", wire_get_text(item, WIRE_PROGRAM));
	ask_json_text(text, "user", user);
	ask_json_text(text, "loaded", wire_get_text(item, WIRE_LOADED));
	ask_json_number(text, "tracepoints", wire_get_number(item, WIRE_TRACEPOINT_COUNT, 0));
	ask_json_text(text, "trace", wire_get_text(item, WIRE_OUTPUT));
	text_add(text, "}");
}

static struct error *add_process(void *context, const struct wire_message *item)
{
	struct listing *list = context;
	const char *program = wire_get_text(item, WIRE_PROGRAM), *loaded = wire_get_text(item, WIRE_LOADED);
	char user[64];

	ask_user_name(wire_get_number(item, WIRE_UID, 0), user, sizeof(user));
	if (args.json) {
		text_add(&list->text, list->count ? ",\n" : "[\n");
		add_json(&list->text, item, user);
	} else {
		if (!list->count)
			strbuf_printf(&list->text, "%7s  %-20s %-12s %-10s %s\n", "PID", "NAME", "USER", "LOADED", "TRACEPOINTS");
		strbuf_printf(&list->text, "%7llu  %-20s %-12s %-10s %llu\n",
			      (unsigned long long)wire_get_number(item, WIRE_PID, 0), program ? program : "", user,
			      loaded ? loaded : "", (unsigned long long)wire_get_number(item, WIRE_TRACEPOINT_COUNT, 0));
	}
	list->count++;
	return NULL;
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_client_ struct client *client = NULL;
	struct listing list = { 0 };

	(void)ret_status;
	if (words->count)
		return error_new(ERROR_USAGE, "unexpected word '%s'", words->items[0]);
	struct error *error = ask_connect(&client);
	if (error)
		return error;
	ask_begin(client, WIRE_PROCESSES, NULL, false);
	error = ask_finish(client, add_process, &list);
	if (!error && args.json)
		text_add(&list.text, list.count ? "\n]\n" : "[]\n");
	if (!error)
		text_flush(&list.text);
	strbuf_free(&list.text);
	return error;
}

const struct command command_list_processes = {
	.name = "list-processes",
	.summary = "list the processes that have the agent",
	.usage = "[OPTIONS]",
	.details = "LOADED is how the agent came there: injected (by attach or add), linked or preloaded.",
	.example = "dyntrace list-processes",
	.options = options,
	.run = run,
};
