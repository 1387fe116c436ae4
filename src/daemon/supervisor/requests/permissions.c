/*
 * permissions.c - who may trace what.
 */
#include "permissions.h"

#include <assert.h>
#include <string.h>

#include "control/proc/proc.h"
#include "request_life.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/supervisor/targets/target.h"

static bool loads_code(const struct request *request)
{
	const char *tracer = wire_get_text(&request->message, WIRE_TRACER);

	return request->kind == WIRE_LOAD || request->kind == WIRE_UNLOAD ||
	       (tracer && (!strcmp(tracer, "call") || !strcmp(tracer, "lttng")));
}

/* Without a FILE the tracer log writes to the standard output of the process; with --sync, to a
 * file that the process has open. */
static bool writes_to_process(const struct request *request)
{
	const char *tracer = wire_get_text(&request->message, WIRE_TRACER);

	return tracer && !strcmp(tracer, "log") &&
	       (!wire_get_text(&request->message, WIRE_ARGUMENT) ||
		wire_get_number(&request->message, WIRE_SYNC, 0));
}

/* A process that has registered has allowed us to trace it (target/register.c), where the kernel
 * lets users trace only the processes that they have started. */
bool permissions_needs_root(const struct target *target, const struct process *process)
{
	bool registered = target && target_is_registered(target);
	char scope = process->user.uid ? proc_ptrace_scope() : '0';

	return !process_is_plain(process) || scope > '1' || (scope == '1' && !registered);
}

/* A process that registers is about to be registered: its user's rights will be enough. */
static bool needs_root(const struct request *request, pid_t pid, const struct process *process)
{
	if (request->kind == WIRE_REGISTER && process_is_plain(process))
		return process->user.uid && proc_ptrace_scope() > '1';
	return permissions_needs_root(target_find(request->supervisor, pid), process);
}

static struct error *check_rights(const struct request *request, pid_t pid,
				  const struct process *process)
{
	struct supervisor *supervisor = request->supervisor;

	if (proc_ptrace_scope() == '3')
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s): kernel.yama.ptrace_scope is 3, which forbids tracing to everybody "
			"(until the next boot with another value)",
			pid, process->name);
	if (supervisor->self.uid != 0 || supervisor->options.all_targets ||
	    !needs_root(request, pid, process))
		return NULL;
	if (!process_is_plain(process))
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) has changed its user or has special rights: its user's rights aren't enough to "
			"trace it (start dyntraced with --all-targets)",
			pid, process->name);
	return error_new(
		ERROR_NOT_PERMITTED,
		"process %d (%s): kernel.yama.ptrace_scope is %c: its user's rights aren't enough to trace it (start "
		"dyntraced with --all-targets, or the program with the agent preloaded)",
		pid, process->name, proc_ptrace_scope());
}

struct error *permissions_check(const struct request *request, pid_t pid,
				const struct process *process)
{
	const struct supervisor *supervisor = request->supervisor;

	assert(pid > 0 && process->user.pid == pid);
	bool own = process_is_own(process, &request->who);

	if (supervisor->self.uid != 0 && process->user.uid != supervisor->self.uid)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) belongs to another user: only root's daemon can trace it",
			pid, process->name);
	if (loads_code(request) && !own)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) isn't yours: only root loads code into other users' processes",
			pid, process->name);
	if (writes_to_process(request) && !own)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) isn't yours: only root writes to other users' output (give the "
			"tracer log a FILE, without --sync)",
			pid, process->name);
	if (supervisor->options.own_only && !own)
		return error_new(
			ERROR_NOT_PERMITTED,
			"process %d (%s) isn't yours: with --own-only, users may trace only their own processes",
			pid, process->name);
	return check_rights(request, pid, process);
}
