/*
 * cmd_event_changes.c - dyntrace disable-event, add-context, remove-context: changes of an event,
 * with the syntax of LTTng's kernel probe interface.
 */
#include "daemon_call.h"

static struct {
	bool user_space;
	const char *pid, *event;
	struct option_values contexts;
} args;

static const struct option_spec disable_options[] = {
	{ 'u', "userspace", NULL, "user space (accepted for LTTng's syntax)",
	  .flag = &args.user_space },
	{ 0, "pid", "PID", "the process: a pid or a name", .string = &args.pid },
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static const struct option_spec context_options[] = {
	{ 'u', "userspace", NULL, "user space (accepted for LTTng's syntax)",
	  .flag = &args.user_space },
	{ 'e', "event", "NAME", "the event's name", .string = &args.event },
	{ 0, "pid", "PID", "the process: a pid or a name", .string = &args.pid },
	{ 't', "type", "TYPE", "the context to record (repeatable)", .list = &args.contexts },
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static const struct option_spec remove_context_options[] = {
	{ 'u', "userspace", NULL, "user space (accepted for LTTng's syntax)",
	  .flag = &args.user_space },
	{ 'e', "event", "NAME", "the event's name", .string = &args.event },
	{ 0, "pid", "PID", "the process: a pid or a name", .string = &args.pid },
	{ 't', "type", "TYPE", "the context to record no more (repeatable)",
	  .list = &args.contexts },
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

static struct error *check_pid(void)
{
	return args.pid ? NULL : error_new(ERROR_USAGE, "no process (give --pid PID)");
}

static struct error *check_name(const struct words *words)
{
	if (words->count != 1)
		return error_new(ERROR_USAGE, "give one NAME, the event's");
	return check_pid();
}

static struct error *run_disable(const struct words *words, int *ret_status)
{
	struct error *error = check_name(words);
	struct daemon_request request = { .kind = WIRE_DISABLE, .target = args.pid };

	(void)ret_status;
	if (error)
		return error;
	request.texts[0] = (struct daemon_text){ WIRE_NAME, words->items[0] };
	return daemon_call_request(&request, NULL, NULL);
}

static struct error *change_context(enum wire_kind kind, const char *type)
{
	struct daemon_request request = { .kind = kind,
					  .target = args.pid,
					  .texts = { { WIRE_NAME, args.event },
						     { WIRE_CONTEXT_TYPE, type } } };

	return daemon_call_request(&request, NULL, NULL);
}

static struct error *change_contexts(const struct words *words, enum wire_kind kind)
{
	struct error *error = check_pid();

	if (!error && words->count)
		error = error_new(ERROR_USAGE, "unexpected argument '%s'", words->items[0]);
	if (!error && !args.event)
		error = error_new(ERROR_USAGE, "no event (give -e NAME)");
	if (!error && !args.contexts.count)
		error = error_new(ERROR_USAGE, "no context (give -t TYPE)");
	for (size_t i = 0; i < args.contexts.count && !error; i++)
		error = change_context(kind, args.contexts.items[i].text);
	return error;
}

static struct error *run_add_context(const struct words *words, int *ret_status)
{
	(void)ret_status;
	return change_contexts(words, WIRE_CONTEXT);
}

static struct error *run_remove_context(const struct words *words, int *ret_status)
{
	(void)ret_status;
	return change_contexts(words, WIRE_NO_CONTEXT);
}

const struct command command_disable_event = {
	.name = "disable-event",
	.summary = "switch a tracepoint off, with LTTng's syntax",
	.usage = "NAME -u --pid PID",
	.example = "dyntrace disable-event hit -u --pid 1234",
	.options = disable_options,
	.run = run_disable,
};

const struct command command_add_context = {
	.name = "add-context",
	.summary = "add a context to an event, with LTTng's syntax",
	.usage = "-u -e NAME --pid PID -t TYPE",
	.details =
		"TYPE is one of\n"
		"  regs, reg:rax            all registers, or one\n"
		"  VARTYPE:NAME:ADDR        memory: int, uint64_t, double, string, ...; a number or SYMBOL[+OFFSET]\n"
		"  var:NAME                 a variable or argument of the source, with members: var:req->path\n"
		"  backtrace                the callers\n"
		"  tid, pid, cpu, comm",
	.example = "dyntrace add-context -u -e hit --pid 1234 -t backtrace",
	.options = context_options,
	.run = run_add_context,
};

const struct command command_remove_context = {
	.name = "remove-context",
	.summary = "take a context away from an event",
	.usage = "-u -e NAME --pid PID -t TYPE",
	.details = "TYPE as it was given to add-context, add or enable-event. LTTng has no such command.",
	.example = "dyntrace remove-context -u -e hit --pid 1234 -t backtrace",
	.options = remove_context_options,
	.run = run_remove_context,
};
