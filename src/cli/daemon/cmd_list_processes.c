/*
 * cmd_list_processes.c - dyntrace list-processes: the processes with the agent.
 */
#include "control/base/cleanup.h"
#include "control/proc/container.h"
#include "daemon_call.h"

static struct {
	bool json;
} args;

static const struct option_spec options[] = {
	DAEMON_JSON_OPTION(&args.json, "a JSON array with one object per process"),
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static void add_json(struct strbuf *text, const struct wire_message *item, const char *user,
		     const char *cgroup, const char *container)
{
	text_add(text, "{");
	daemon_call_json_number(text, "pid", wire_get_number(item, WIRE_PID, 0));
	daemon_call_json_text(text, "name", wire_get_text(item, WIRE_PROGRAM));
	daemon_call_json_text(text, "user", user);
	daemon_call_json_text(text, "loaded", wire_get_text(item, WIRE_LOADED));
	daemon_call_json_number(text, "tracepoints",
				wire_get_number(item, WIRE_TRACEPOINT_COUNT, 0));
	daemon_call_json_text(text, "trace", wire_get_text(item, WIRE_OUTPUT));
	daemon_call_json_text(text, "cgroup", cgroup);
	daemon_call_json_text(text, "container", container);
	if (wire_get_text(item, WIRE_STATE))
		daemon_call_json_text(text, "state", wire_get_text(item, WIRE_STATE));
	text_add(text, "}");
}

static void add_process(struct daemon_call_list *list, const struct wire_message *item)
{
	char user[64], name[CONTAINER_NAME_SIZE];
	_cleanup_free_ char *cgroup = container_cgroup((pid_t)wire_get_number(item, WIRE_PID, 0));
	bool contained = cgroup && container_name(cgroup, name);

	daemon_call_user_name(wire_get_number(item, WIRE_UID, 0), user, sizeof(user));
	if (list->json) {
		add_json(&list->text, item, user, cgroup, contained ? name : NULL);
		return;
	}
	if (!list->count)
		text_add(&list->text, "PID\tNAME\tUSER\tLOADED\tTRACEPOINTS\tCONTAINER\n");
	text_cell_number(&list->text, daemon_call_number_of(item, WIRE_PID));
	text_cell(&list->text, daemon_call_text_of(item, WIRE_PROGRAM));
	text_cell(&list->text, user);
	text_cell(&list->text, daemon_call_text_of(item, WIRE_LOADED));
	text_cell_number(&list->text, daemon_call_number_of(item, WIRE_TRACEPOINT_COUNT));
	text_cell(&list->text, contained ? name : "-");
	if (wire_get_text(item, WIRE_STATE))
		text_cell(&list->text, daemon_call_text_of(item, WIRE_STATE));
	text_end_row(&list->text);
}

static struct error *run(const struct words *words, int *ret_status)
{
	struct daemon_call_list list = { .json = args.json, .add = add_process };

	(void)ret_status;
	return daemon_call_list(words, DAEMON_NO_TARGET, WIRE_PROCESSES, false, &list);
}

const struct command command_list_processes = {
	.name = "list-processes",
	.summary = "list the processes with the agent",
	.usage = "[OPTIONS]",
	.details = "LOADED: the agent was injected (by attach or add), linked or preloaded. CONTAINER: the id of\n"
		   "the container, or the service, that the process is in, by its control group.",
	.example = "dyntrace list-processes",
	.options = options,
	.run = run,
};
