#include "fronts.h"

#include <assert.h>
#include <sys/syscall.h>

#include "control/base/cleanup.h"
#include "control/placement/sigtrap_guards.h"
#include "control/proc/proc_status.h"
#include "control/remote/private_memory.h"
#include "control/remote/remote_sigaction.h"

#define FIELD(at, field) taddr_add((at), (int64_t)offsetof(struct dt_fronts, field))
#define RESET_HANDLER 0x80000000u /* SA_RESETHAND: the kernel takes such a handler away itself */

static const struct private_memory memory = {
	.size = DT_ROUND_UP(sizeof(struct dt_fronts), DT_PAGE),
	.mark = offsetof(struct dt_fronts, mark),
	.what = "memory for signal handlers",
};

struct error *fronts_add_guards(struct session *session)
{
	struct guard_list list = { 0 };

	if (session->has_front_guards)
		return NULL;
	struct error *error = sigtrap_guards_find_call(session->planner, &session->modules,
						       SYS_rt_sigaction, &list);
	for (size_t i = 0; i < list.count && !error; i++)
		error = own_probes_add_guard(&session->own_probes, list.items[i].module,
					     list.items[i].address, "rt_sigaction");
	/* before its libraries are loaded, a program has no libc to guard yet */
	session->has_front_guards = list.count && !error;
	vec_free(&list);
	return error;
}

/* The signals that have a handler, as bits; all if unknown. */
static uint64_t find_caught(const struct session *session)
{
	pid_t pid = session->proc->pid;
	struct thread_status status;
	_cleanup_error_ struct error *unknown =
		proc_status_read(pid, proc_status_live_thread(pid), &status);

	return unknown ? UINT64_MAX : status.caught;
}

/* A handler of the agent's leads to the target's already. */
static bool is_ours(const struct agent *agent, uint64_t handler)
{
	return handler - agent->agent_at.v < DT_AGENT_SIZE;
}

static struct error *put_in_front(struct session *session, struct stop *stop, taddr at,
				  uint32_t index)
{
	unsigned signal = dt_front_signals[index];
	struct dt_sigaction action;
	struct error *error =
		remote_sigaction_get(session->proc, stop, FIELD(at, scratch), signal, &action);

	if (error || action.handler <= 1 || action.flags & RESET_HANDLER ||
	    is_ours(session->agent, action.handler))
		return error;
	error = mem_write(session->proc, FIELD(at, actions[index]), &action, sizeof(action));
	action.handler = session->agent->control->front;
	return error ? error :
		       remote_sigaction_set(session->proc, stop, FIELD(at, scratch), signal,
					    &action);
}

struct error *fronts_install(struct session *session, struct stop *stop)
{
	struct dt_control *control = session->agent->control;
	uint64_t caught = find_caught(session);
	uint32_t pid = (uint32_t)session->proc->inner_pid;
	taddr at;

	assert(!control->fronts && control->front);
	struct error *error =
		near_find_lone(session->proc, session->agent->control_at, memory.size, &at);
	if (error)
		return error;
	/* before mmap: a controller that takes over must find it; no guard looks at it yet */
	__atomic_store_n(&control->fronts, at.v, __ATOMIC_RELEASE);
	error = private_memory_map(stop, &memory, at);
	if (error) {
		__atomic_store_n(&control->fronts, 0, __ATOMIC_RELEASE);
		return error;
	}
	error = mem_write(session->proc, FIELD(at, pid), &pid, sizeof(pid));
	for (uint32_t i = 0; i < DT_FRONTS && !error; i++) {
		if (caught >> (dt_front_signals[i] - 1) & 1)
			error = put_in_front(session, stop, at, i);
	}
	return error;
}

bool fronts_any(const struct session *session)
{
	taddr at = taddr_of(session->agent->control->fronts);
	struct dt_sigaction actions[DT_FRONTS] = { 0 };
	bool mapped = false, found = false;

	if (!at.v)
		return false;
	_cleanup_error_ struct error *unreadable =
		private_memory_find(session->proc, &memory, at, &mapped);
	if (!unreadable && mapped)
		unreadable =
			mem_read(session->proc, FIELD(at, actions), actions, sizeof(actions));
	for (uint32_t i = 0; i < DT_FRONTS; i++)
		found |= actions[i].handler > 1;
	return unreadable || found;
}

/* The target may have changed its action since, by a system call that no guard has seen. */
static struct error *give_back(const struct session *session, struct proc *proc, struct stop *stop,
			       taddr at, uint32_t index, const struct dt_sigaction *own)
{
	unsigned signal = dt_front_signals[index];
	struct dt_sigaction action;
	struct error *error =
		remote_sigaction_get(proc, stop, FIELD(at, scratch), signal, &action);

	if (error || action.handler != session->agent->control->front)
		return error;
	return remote_sigaction_set(proc, stop, FIELD(at, scratch), signal, own);
}

struct error *fronts_uninstall(const struct session *session, struct proc *proc, struct stop *stop)
{
	taddr at = taddr_of(session->agent->control->fronts);
	struct dt_sigaction actions[DT_FRONTS];
	bool mapped = false;
	struct error *error = at.v ? private_memory_find(proc, &memory, at, &mapped) : NULL;

	if (error || !mapped)
		return error;
	error = mem_read(proc, FIELD(at, actions), actions, sizeof(actions));
	for (uint32_t i = 0; i < DT_FRONTS && !error; i++) {
		if (actions[i].handler > 1)
			error = give_back(session, proc, stop, at, i, &actions[i]);
	}
	return error ? error : private_memory_unmap(stop, &memory, at);
}
