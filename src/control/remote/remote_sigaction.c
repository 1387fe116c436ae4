#include "remote_sigaction.h"

#include "remote.h"

#include <sys/syscall.h>

#define SA_SIGINFO_BIT 4u
#define SA_ONSTACK_BIT 0x08000000u
#define SA_RESTORER_BIT 0x04000000u

static struct error *call(struct stop *stop, long number, const uint64_t args[6], const char *what)
{
	int64_t result = 0;
	struct error *error = remote_syscall(stop, number, args, &result);

	if (!error && result < 0 && result > -4096)
		error = error_errno((int)-result, "cannot %s", what);
	return error;
}

struct error *remote_sigaction_get(struct proc *proc, struct stop *stop, taddr scratch,
				   unsigned signal, struct dt_sigaction *ret_action)
{
	const uint64_t args[6] = { signal, 0, scratch.v, sizeof(uint64_t) };
	struct error *error = call(stop, SYS_rt_sigaction, args, "read a signal's action");

	return error ? error : mem_read(proc, scratch, ret_action, sizeof(*ret_action));
}

struct error *remote_sigaction_set(struct proc *proc, struct stop *stop, taddr scratch,
				   unsigned signal, const struct dt_sigaction *action)
{
	const uint64_t args[6] = { signal, scratch.v, 0, sizeof(uint64_t) };
	struct error *error = mem_write(proc, scratch, action, sizeof(*action));

	return error ? error : call(stop, SYS_rt_sigaction, args, "change a signal's action");
}

struct error *remote_sigaction_give_back(struct proc *proc, struct stop *stop, taddr scratch,
					 unsigned signal, taddr agent,
					 const struct dt_sigaction *own)
{
	struct dt_sigaction action;
	struct error *error = remote_sigaction_get(proc, stop, scratch, signal, &action);

	if (error || action.handler - agent.v >= DT_AGENT_SIZE)
		return error;
	return remote_sigaction_set(proc, stop, scratch, signal, own);
}

struct dt_sigaction remote_sigaction_ours(taddr handler, taddr restorer)
{
	return (struct dt_sigaction){ .handler = handler.v,
				      .flags = SA_SIGINFO_BIT | SA_ONSTACK_BIT | SA_RESTORER_BIT,
				      .restorer = restorer.v };
}
