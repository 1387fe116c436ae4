/*
 * cmd_status.c - dyntrace status: the daemon and its state, or what a process allows.
 */
#include "cli/explain/filter_report.h"
#include "client/metrics.h"
#include "daemon_call.h"
#include "options/time_text.h"
#include "status_cost.h"

static struct {
	bool json, metrics;
} args;

static const struct option_spec options[] = {
	DAEMON_JSON_OPTION(&args.json, "a JSON object"),
	{ 0, "metrics", NULL, "hits, losses, durations and counts by key, as Prometheus reads them",
	  .flag = &args.metrics },
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static void add_json_costs(struct strbuf *text, const struct status_costs *costs)
{
	text_add(text, ",\"overhead\":[");
	for (size_t i = 0; i < costs->list.count; i++) {
		const struct status_cost *cost = &costs->list.items[i];

		text_add(text, i ? ",{" : "{");
		daemon_call_json_number(text, "pid", cost->pid);
		daemon_call_json_text(text, "program", cost->program);
		if (cost->is_known) {
			daemon_call_json_number(text, "cost_ns", cost->cost_ns);
			daemon_call_json_flag(text, "cost_measured", cost->is_measured);
			daemon_call_json_number(text, "reader_ns", cost->reader_ns);
		}
		text_add(text, "}");
	}
	text_add(text, "]");
}

static void print_costs(const struct status_costs *costs)
{
	for (size_t i = 0; i < costs->list.count; i++) {
		const struct status_cost *cost = &costs->list.items[i];
		char taken[TIME_TEXT], reader[TIME_TEXT];

		if (!cost->is_known) {
			cli_print("%-13sunknown of %llu (%s): its worker doesn't answer\n",
				  i ? "" : "overhead:", (unsigned long long)cost->pid,
				  cost->program);
			continue;
		}
		time_text(cost->cost_ns, taken);
		time_text(cost->reader_ns, reader);
		cli_print("%-13s%s %s of the CPU time of %llu (%s); its reader: %s\n",
			  i ? "" : "overhead:", cost->is_measured ? "about" : "at least", taken,
			  (unsigned long long)cost->pid, cost->program, reader);
	}
}

static void print_json(const struct wire_message *item, const char *user,
		       const struct status_costs *costs)
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
	daemon_call_json_number(&text, "profiles", wire_get_number(item, WIRE_PROFILE_COUNT, 0));
	daemon_call_json_texts(&text, "profile_errors", item, WIRE_PROFILE_ERROR);
	daemon_call_json_number(&text, "clients", wire_get_number(item, WIRE_CLIENT_COUNT, 0));
	add_json_costs(&text, costs);
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

static void print_profiles(const struct wire_message *item)
{
	struct wire_value value;

	cli_print("profiles:    %llu\n", daemon_call_number_of(item, WIRE_PROFILE_COUNT));
	for (size_t at = 0; wire_next(item, &at, &value);) {
		if (value.tag == WIRE_PROFILE_ERROR)
			cli_print("             not used: %s\n", value.text);
	}
}

static struct error *print_status(void *context, const struct wire_message *item)
{
	const struct status_costs *costs = context;
	char user[64];

	daemon_call_user_name(wire_get_number(item, WIRE_UID, 0), user, sizeof(user));
	if (args.json) {
		print_json(item, user, costs);
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
	print_profiles(item);
	cli_print("clients:     %llu\n", daemon_call_number_of(item, WIRE_CLIENT_COUNT));
	print_costs(costs);
	return NULL;
}

/* Needs no daemon. */
static struct error *show_process(const char *target)
{
	struct proc *proc = NULL;
	pid_t pid;
	struct error *error = proc_find(target, &pid);

	if (!error)
		error = proc_open(pid, &proc);
	if (!error)
		cli_print("process:     %d (%s)\n", proc->pid, proc->comm);
	if (!error)
		error = filter_report(proc);
	proc_close(proc);
	return error;
}

/* Foreign text in it is escaped already. */
static struct error *print_metrics(void)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	struct error *error = daemon_call_connect(&client);

	if (!error)
		error = metrics_collect(client, &text);
	if (!error)
		text_flush(&text);
	return error;
}

static struct error *show_daemon(const struct words *words)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_(status_cost_free) struct status_costs costs = { 0 };
	struct error *error = daemon_call_check_words(words, DAEMON_NO_TARGET);

	if (!error)
		error = daemon_call_connect(&client);
	if (!error)
		error = status_cost_collect(client, &costs);
	client_close(take_ptr(&client)); /* status tells the number of clients */
	return error ? error :
		       daemon_call_target(words, DAEMON_NO_TARGET, WIRE_STATUS, false,
					  print_status, &costs);
}

static struct error *run(const struct words *words, int *ret_status)
{
	(void)ret_status;
	if (args.metrics && (words->count || args.json))
		return error_new(ERROR_USAGE, "--metrics: not with %s",
				 args.json ? "--json" : "a TARGET");
	if (args.metrics)
		return print_metrics();
	if (words->count == 1 && !args.json)
		return show_process(words->items[0]);
	return show_daemon(words);
}

const struct command command_status = {
	.name = "status",
	.summary = "show the daemon: its user, its targets, its traces, what tracing costs",
	.usage = "[OPTIONS] [TARGET]",
	.details = "With TARGET, a pid or name, shows instead whether the process's filter of system calls\n"
		   "(seccomp) lets dyntrace trace it, and what is lost; that needs root, and no daemon.",
	.example = "dyntrace status\n"
		   "dyntrace status redis-server\n"
		   "dyntrace status --metrics",
	.options = options,
	.run = run,
};
