#include "fronts.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>
#include <sys/syscall.h>

#include "control/base/cleanup.h"
#include "control/placement/sigtrap_guards.h"
#include "control/proc/proc_status.h"
#include "control/remote/private_memory.h"
#include "control/remote/remote.h"
#include "control/remote/remote_sigaction.h"
#include "control/remote/unfit.h"

#define FIELD(at, field) taddr_add((at), (int64_t)offsetof(struct dt_fronts, field))
#define LOOKS 20
#define LOOK_NS 2000000L
#define WITH_INFO 4u /* SA_SIGINFO: the kernel writes no siginfo_t without */
#define RESET_HANDLER 0x80000000u /* SA_RESETHAND: the kernel takes such a handler away itself */

static const struct private_memory memory = {
	.size = DT_ROUND_UP(sizeof(struct dt_fronts), DT_PAGE),
	.mark = offsetof(struct dt_fronts, mark),
	.what = "memory for signal handlers",
};

static bool has_guard(const struct session *session, const struct guard *guard)
{
	for (size_t i = 0; i < session->own_probes.count; i++) {
		const struct probe *probe = session->own_probes.items[i];

		if (probe->event.hides && probe->place.module == guard->module &&
		    probe->place.address.v == guard->module->bias.v + guard->address)
			return true;
	}
	return false;
}

struct error *fronts_add_guards(struct session *session)
{
	struct guard_list list = { 0 };
	bool complete = false;

	if (session->has_front_guards)
		return NULL;
	struct error *error = sigtrap_guards_find_call(session->planner, &session->modules,
						       SYS_rt_sigaction, &list, &complete);
	for (size_t i = 0; i < list.count && !error; i++) {
		if (!has_guard(session, &list.items[i]))
			error = own_probes_add_guard(&session->own_probes, list.items[i].module,
						     list.items[i].address, "rt_sigaction", true);
	}
	/* before its libraries are loaded, a program has no libc to guard yet */
	session->has_front_guards = complete && !error;
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
	if (!error)
		error = mem_write(session->proc, FIELD(at, last[index]), &action.handler,
				  sizeof(action.handler));
	action.handler = session->agent->control->front;
	action.flags |= WITH_INFO;
	return error ? error :
		       remote_sigaction_set(session->proc, stop, FIELD(at, scratch), signal,
					    &action);
}

taddr fronts_find_place(struct maps *maps, taddr near)
{
	uint64_t size = memory.size + 2 * DT_PAGE; /* as near_find_lone */
	taddr gap;
	_cleanup_error_ struct error *full = near_find_gap(maps, near, near, size, &gap);

	return full || !maps_claim(maps, gap, size) ? taddr_of(0) : taddr_add(gap, DT_PAGE);
}

void fronts_ahead(struct ahead *list, taddr at)
{
	private_memory_ahead(list, &memory, at);
}

static struct error *map_at(struct session *session, struct stop *stop, taddr at)
{
	struct dt_control *control = session->agent->control;

	/* before mmap: a controller that takes over must find it; no guard looks at it yet */
	__atomic_store_n(&control->fronts, at.v, __ATOMIC_RELEASE);
	struct error *error = private_memory_map(stop, &memory, at);
	if (error)
		__atomic_store_n(&control->fronts, 0, __ATOMIC_RELEASE);
	return error;
}

struct error *fronts_map(struct session *session, struct stop *stop)
{
	const struct agent *agent = session->agent;
	uint32_t pid = (uint32_t)session->proc->inner_pid;
	taddr at = taddr_of(agent->control->fronts);

	assert(agent->control->front);
	struct error *error = at.v ? map_at(session, stop, at) : NULL;
	if (!at.v || (error && error_kind(error) != ERROR_GONE)) {
		error_free(error);
		error = near_find_lone(session->proc, agent->control_at, memory.size, &at);
		if (!error)
			error = map_at(session, stop, at);
	}
	if (error)
		return error;
	session->fronts_due = true;
	return mem_write(session->proc, FIELD(at, pid), &pid, sizeof(pid));
}

/* The kernel's list is read in the stop: nobody changes it meanwhile. */
static struct error *install(struct session *session, struct stop *stop)
{
	taddr at = taddr_of(session->agent->control->fronts);
	uint64_t caught = find_caught(session), wanted = 0;

	for (uint32_t i = 0; i < DT_FRONTS; i++)
		wanted |= caught & 1ULL << (dt_front_signals[i] - 1);
	if (!wanted)
		return NULL;
	struct error *error = remote_borrow(stop);
	if (error)
		return error;
	for (uint32_t i = 0; i < DT_FRONTS && !error; i++) {
		if (wanted >> (dt_front_signals[i] - 1) & 1)
			error = put_in_front(session, stop, at, i);
	}
	struct error *end = remote_give_back(stop);
	if (error)
		error_free(end);
	return error ? error : end;
}

struct error *fronts_install(void *data, struct stop *stop)
{
	struct session *session = data;
	struct error *error = session->fronts_due ? install(session, stop) : NULL;

	session->fronts_due &= error != NULL;
	return error;
}

struct error *fronts_own_action(const struct session *session, unsigned signal,
				struct dt_sigaction *action)
{
	const struct dt_control *control = session->agent->control;
	struct error *error = NULL;

	for (uint32_t i = 0; i < DT_FRONTS && action->handler == control->front && !error; i++) {
		taddr at = taddr_of(control->fronts);

		if (dt_front_signals[i] == signal)
			error = mem_read(session->proc, FIELD(at, actions[i]), action,
					 sizeof(*action));
	}
	return error;
}

/* Is dt_front the handler of that signal? */
static bool is_in_front(const struct dt_fronts *fronts, uint32_t index)
{
	return fronts->actions[index].handler > 1 || fronts->full >> index & 1;
}

/* After loads were forbidden: waits until each thread has been seen where it makes none, as
 * loads_await of target/signals/loads.c. False: one stays there, or a handler has jumped away from
 * there, and nobody has noticed that (X20). */
static bool await_loads(const struct session *session)
{
	size_t size = DT_SLOTS * sizeof(struct dt_own_stack);
	_cleanup_free_ struct dt_own_stack *stacks = malloc(size);
	_cleanup_free_ bool *seen = calloc(DT_SLOTS, sizeof(*seen));
	taddr at = taddr_add(session->agent->state_at,
			     (int64_t)offsetof(struct dt_state, own_stacks));
	size_t count = 0;

	for (int i = 0; i < LOOKS && stacks && seen && count < DT_SLOTS; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
		_cleanup_error_ struct error *unreadable =
			mem_read(session->proc, at, stacks, size);

		if (unreadable)
			return false;
		for (size_t j = 0; j < DT_SLOTS; j++) {
			count += !seen[j] && !stacks[j].loading;
			seen[j] |= !stacks[j].loading;
		}
	}
	return count == DT_SLOTS;
}

/* Has the program a handler of one of the two signals, which needs dt_front on? */
static bool has_handlers(const struct dt_fronts *fronts)
{
	for (uint32_t i = 0; i < DT_FRONTS; i++) {
		if (fronts->full >> i & 1 && fronts->actions[i].handler > 1)
			return true;
	}
	return false;
}

/* The program may have set other actions up to the stop. */
static struct error *try_give_two_back(struct session *session, taddr at)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	struct error *error = stop_all_or_quit(session->proc, STOP_TIMEOUT_MS, &stop);
	struct dt_fronts fronts;
	uint32_t full = 0;

	if (!error)
		error = mem_read(session->proc, at, &fronts, sizeof(fronts));
	if (!error && has_handlers(&fronts))
		return NULL;
	for (uint32_t i = 0; i < DT_FRONTS && !error; i++) {
		if (fronts.full >> i & 1)
			error = remote_sigaction_give_back(session->proc, stop, FIELD(at, scratch),
							   dt_front_signals[i],
							   session->agent->agent_at,
							   &fronts.actions[i]);
	}
	return error ? error : mem_write(session->proc, FIELD(at, full), &full, sizeof(full));
}

static struct error *give_two_back(struct session *session, taddr at)
{
	struct error *error = try_give_two_back(session, at);

	for (unsigned tries = 0; unfit_try_again(&error, &tries);)
		error = try_give_two_back(session, at);
	return error;
}

struct error *fronts_end_loads(struct session *session)
{
	taddr at = taddr_of(session->agent->control->fronts);
	struct dt_fronts fronts = { 0 };
	uint32_t closed = 1;
	bool mapped = false;
	struct error *error =
		at.v ? private_memory_find(session->proc, &memory, at, &mapped) : NULL;

	if (!error && mapped)
		error = mem_read(session->proc, at, &fronts, sizeof(fronts));
	if (error || !fronts.full || has_handlers(&fronts))
		return error;
	error = mem_write(session->proc, FIELD(at, closed), &closed, sizeof(closed));
	if (!error)
		error = agent_forbid_loads(session->agent, session->proc);
	return error || !await_loads(session) ? error : give_two_back(session, at);
}

bool fronts_any(const struct session *session, struct proc *proc)
{
	taddr at = taddr_of(session->agent->control->fronts);
	struct dt_fronts fronts = { 0 };
	bool mapped = false, found = false;

	if (!at.v)
		return false;
	_cleanup_error_ struct error *unreadable =
		private_memory_find(proc, &memory, at, &mapped);
	if (!unreadable && mapped)
		unreadable = mem_read(proc, at, &fronts, sizeof(fronts));
	for (uint32_t i = 0; i < DT_FRONTS; i++)
		found |= is_in_front(&fronts, i);
	return unreadable || found;
}

struct error *fronts_give_back(const struct session *session, struct proc *proc, struct stop *stop)
{
	taddr at = taddr_of(session->agent->control->fronts);
	struct dt_fronts fronts;
	bool mapped = false;
	struct error *error = at.v ? private_memory_find(proc, &memory, at, &mapped) : NULL;

	if (error || !mapped)
		return error;
	error = mem_read(proc, at, &fronts, sizeof(fronts));
	for (uint32_t i = 0; i < DT_FRONTS && !error; i++) {
		if (is_in_front(&fronts, i))
			error = remote_sigaction_give_back(proc, stop, FIELD(at, scratch),
							   dt_front_signals[i],
							   session->agent->agent_at,
							   &fronts.actions[i]);
	}
	return error;
}

struct error *fronts_list_memory(const struct session *session, struct proc *proc,
				 struct remote_map_list *list)
{
	return private_memory_list(proc, &memory, taddr_of(session->agent->control->fronts), list);
}
