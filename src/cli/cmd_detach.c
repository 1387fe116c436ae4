/*
 * cmd_detach.c - dyntrace detach: the target is as it was.
 */
#include "cli/daemon/daemon_call.h"
#include "cli/trace/leftovers.h"

static void cleanup_proc(struct proc **proc)
{
	proc_close(*proc);
}

static struct {
	bool all;
} args;

static const struct option_spec detach_options[] = {
	ASK_ALL_OPTION(&args.all),
	ASK_SOCKET_OPTION,
	{ 0 },
};

/* True: the daemon has done it, or has refused (*ret_error). False: there is no daemon, or it knows
 * nothing of this process. */
static bool ask_daemon(const char *target, struct error **ret_error)
{
	_cleanup_client_ struct client *client = NULL;
	_cleanup_error_ struct error *error = daemon_call_connect(&client);

	if (error && !ask_socket)
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
		return error_new(ERROR_USAGE, "give one TARGET: a pid, or a name");
	if (ask_daemon(words->items[0], &error))
		return error;
	error = proc_find(words->items[0], &pid);
	if (!error)
		error = proc_open(pid, &proc);
	if (!error)
		error = takeover_clean(proc, &takeover);
	if (error)
		return error;
	if (!takeover.found)
		return error_new(ERROR_FAILED, "process %d has nothing of dyntrace's", pid);
	leftovers_tell(proc, &takeover);
	if (takeover.left)
		return error_new(ERROR_FAILED, "%s", takeover.why);
	return NULL;
}

const struct command command_detach = {
	.name = "detach",
	.summary = "remove every tracepoint and the agent from a process",
	.usage = "[OPTIONS] TARGET",
	.details =
		"The process is as it was, and its trace is complete. Without a daemon, or where it knows nothing of the process, this\n"
		"cleans up what a dyntrace that was killed has left there: the code is put back, and events that nobody has written\n"
		"yet are saved in the trace they belong to.",
	.example = "dyntrace detach redis-server",
	.options = detach_options,
	.run = run_detach,
};
