#include "faults.h"

#include <assert.h>

#include "control/base/cleanup.h"
#include "control/remote/private_memory.h"
#include "control/session/own_probes/fronts.h"
#include "control/remote/remote_sigaction.h"
#include "control/session/state/session_state.h"
#include "call_tracer.h"

#define FIELD(at, field) taddr_add((at), (int64_t)offsetof(struct dt_calls, field))

static const struct private_memory memory = {
	.size = DT_ROUND_UP(sizeof(struct dt_calls), DT_PAGE),
	.mark = offsetof(struct dt_calls, mark),
	.what = "memory for called functions",
};

struct error *faults_map(struct session *session, struct stop *stop)
{
	struct dt_control *control = session->agent->control;
	uint32_t pid = (uint32_t)session->proc->inner_pid;
	taddr at;

	if (session->call->calls_at.v)
		return NULL;
	struct error *error =
		near_find_lone(session->proc, session->agent->control_at, memory.size, &at);
	if (error)
		return error;
	control->calls_memory = at.v;
	error = private_memory_map(stop, &memory, at);
	if (error) {
		control->calls_memory = 0;
		return error;
	}
	session->call->calls_at = at;
	return mem_write(session->proc, FIELD(at, pid), &pid, sizeof(pid));
}

/* ---- handlers -------------------------------------------------------------------------------- */

/* Finds the return address of any of the target's handlers: signal frames on its stacks hold that
 * word. */
static struct error *find_restorer(struct session *session, struct stop *stop,
				   uint64_t *ret_restorer)
{
	struct dt_sigaction action;
	struct error *error = NULL;

	*ret_restorer = 0;
	for (unsigned signal = 1; signal <= DT_SIGNALS && !error && !*ret_restorer; signal++) {
		error = remote_sigaction_get(session->proc, stop,
					     FIELD(session->call->calls_at, scratch), signal,
					     &action);
		if (!error && action.handler > 1)
			*ret_restorer = action.restorer;
	}
	return error;
}

static struct error *read_actions(struct session *session, struct stop *stop)
{
	taddr at = session->call->calls_at;
	struct dt_sigaction actions[DT_FAULTS];
	uint64_t restorer;
	struct error *error = find_restorer(session, stop, &restorer);

	for (size_t i = 0; i < DT_FAULTS && !error; i++) {
		error = remote_sigaction_get(session->proc, stop, FIELD(at, scratch),
					     dt_fault_signals[i], &actions[i]);
		if (!error)
			error = fronts_own_action(session, dt_fault_signals[i], &actions[i]);
	}
	if (!error)
		error = mem_write(session->proc, FIELD(at, restorer), &restorer, sizeof(restorer));
	return error ? error :
		       mem_write(session->proc, FIELD(at, actions), actions, sizeof(actions));
}

static struct error *set_actions(struct proc *proc, struct stop *stop, taddr at,
				 const struct dt_sigaction *ours)
{
	struct error *error = NULL;

	for (size_t i = 0; i < DT_FAULTS && !error; i++)
		error = remote_sigaction_set(proc, stop, FIELD(at, scratch), dt_fault_signals[i],
					     ours);
	return error;
}

static struct error *install(struct session *session, struct stop *stop)
{
	const struct agent *agent = session->agent;

	assert(session->call->calls_at.v && agent->fault_at.v);
	struct dt_sigaction ours = remote_sigaction_ours(agent->fault_at, agent->trap_return_at);
	struct error *error = read_actions(session, stop);

	if (error)
		return error;
	agent->control->flags &= ~DT_LOADS; /* its signals are ours now (X4) */
	error = agent_forbid_loads(agent, session->proc);
	if (error)
		return error;
	/* from here on the guards keep the target's own rt_sigaction calls in struct dt_calls */
	__atomic_store_n(&agent->control->calls, session->call->calls_at.v, __ATOMIC_RELEASE);
	return set_actions(session->proc, stop, session->call->calls_at, &ours);
}

struct error *faults_install(struct session *session, struct stop *held)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	struct error *error = NULL;

	if (session->agent->control->calls)
		return NULL;
	if (!held)
		error = stop_one(session->proc, STOP_TIMEOUT_MS, &stop);
	return error ? error : install(session, held ? held : stop);
}

struct error *faults_give_back(const struct session *session, struct proc *proc, struct stop *stop)
{
	const struct dt_control *control = session->agent->control;
	taddr at = taddr_of(control->calls_memory);
	struct dt_sigaction actions[DT_FAULTS];
	bool mapped = false;
	struct error *error = at.v ? private_memory_find(proc, &memory, at, &mapped) : NULL;

	if (error || !mapped)
		return error;
	if (control->calls)
		error = mem_read(proc, FIELD(at, actions), actions, sizeof(actions));
	for (size_t i = 0; i < DT_FAULTS && !error && control->calls; i++)
		error = remote_sigaction_give_back(proc, stop, FIELD(at, scratch),
						   dt_fault_signals[i], session->agent->agent_at,
						   &actions[i]);
	return error;
}

struct error *faults_list_memory(const struct session *session, struct proc *proc,
				 struct remote_map_list *list)
{
	return private_memory_list(proc, &memory, taddr_of(session->agent->control->calls_memory),
				   list);
}
