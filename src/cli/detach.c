/*
 * detach.c - dyntrace detach: the target is as it was.
 */
#include "../control/base/cleanup.h"
#include "commands.h"
#include "leftovers.h"

static void cleanup_proc(struct proc **proc)
{
	proc_close(*proc);
}

static const struct option_spec detach_options[] = {
	{ 0 },
};

static struct error *run_detach(const struct words *words, int *ret_status)
{
	_cleanup_(cleanup_proc) struct proc *proc = NULL;
	struct takeover takeover = { 0 };
	pid_t pid;

	(void)ret_status;
	if (words->count != 1)
		return error_new(ERROR_USAGE, "give one TARGET: a pid, or a name");
	struct error *error = proc_find(words->items[0], &pid);
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
	.summary = "remove what a dyntrace that was killed left in a process",
	.usage = "TARGET",
	.details = "Puts the code of the process back as it was, saves the events that nobody has written yet in the\n"
		   "trace they belong to, and removes the agent.",
	.example = "dyntrace detach redis-server",
	.options = detach_options,
	.run = run_detach,
};
