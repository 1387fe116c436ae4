/*
 * cmd_detach.c - dyntrace detach: remove everything of dyntrace's from a process.
 */
#include "cli/daemon/daemon_call.h"
#include "cli/trace/leftovers.h"

static struct {
	bool all;
} args;

static const struct option_spec detach_options[] = {
	DAEMON_ALL_OPTION(&args.all),
	DAEMON_SOCKET_OPTION,
	{ 0 },
};

/* Asks the daemon. True: it detached, or refused (*ret_error). False: no daemon runs, or it doesn't
 * know this process. */
static bool detach_by_daemon(const char *target, struct error **ret_error)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_error_ struct error *error = daemon_call_connect(&client);

	if (error && !daemon_call_socket)
		return false;
	if (!error) {
		daemon_call_begin(client, WIRE_DETACH, target, args.all);
		error = daemon_call_finish(client, NULL, NULL);
	}
	if (error && error_kind(error) == ERROR_NOT_FOUND)
		return false;
	*ret_error = take_ptr(&error);
	return true;
}

static struct error *run_detach(const struct words *words, int *ret_status)
{
	_cleanup_(cleanup_proc) struct proc *proc = NULL;
	struct takeover takeover = { 0 };
	struct error *error = NULL;
	pid_t pid;

	(void)ret_status;
	if (words->count != 1)
		return error_new(ERROR_USAGE, "give one TARGET (a pid or a name)");
	if (detach_by_daemon(words->items[0], &error))
		return error;
	error = proc_find(words->items[0], &pid);
	if (!error)
		error = proc_open(pid, &proc);
	if (!error)
		proc->may_suspend = true;
	if (!error)
		error = takeover_clean(proc, &takeover);
	if (error)
		return error;
	if (!takeover.found)
		return error_new(ERROR_FAILED, "process %d is not traced", pid);
	leftovers_note(proc, &takeover);
	if (takeover.left)
		return error_new(ERROR_FAILED, "%s", takeover.why);
	return NULL;
}

const struct command command_detach = {
	.name = "detach",
	.summary = "remove every tracepoint and the agent from a process",
	.usage = "[OPTIONS] TARGET",
	.details =
		"Restores the process and completes its trace. Without a daemon, or for a process that the\n"
		"daemon doesn't know, detach cleans up after a dyntrace that was killed: it restores the code\n"
		"and saves unwritten events in the trace they belong to.",
	.example = "dyntrace detach redis-server",
	.options = detach_options,
	.run = run_detach,
};
