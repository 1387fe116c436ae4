#include "traps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/placement/sigtrap_guards.h"
#include "control/proc/proc_status.h"
#include "control/remote/private_memory.h"
#include "control/remote/remote_sigaction.h"
#include "control/remote/unfit.h"
#include "control/session/state/session_state.h"
#include "fencing.h"
#include "fronts.h"

#define TRIES 8
#define SA_NODEFER_BIT 0x40000000u
#define PAUSE_MS 5
#define PAUSE_MAX_MS 80 /* a thread waits longer than that for a busy processor */
#define LOOKS 4
#define GUARD_DEPTH 4096u /* bytes of stack that a guard takes at most, with the agent on top */
#define BELIEVED_NS 200000000u
#define FIELD(at, field) taddr_add((at), (int64_t)offsetof(struct dt_traps, field))

static const struct private_memory memory = {
	.size = DT_ROUND_UP(sizeof(struct dt_traps), DT_PAGE),
	.mark = offsetof(struct dt_traps, mark),
	.what = "memory for traps",
};

/* ---- decision -------------------------------------------------------------------------------- */

/* Finds the guards, or the reason why this process can't have them. */
static struct error *judge(struct session *session)
{
	struct guard_list list = { 0 };
	struct error *error = fencing_allows_traps(session);

	session->traps->alone = sigtrap_guards_is_alone(&session->modules);
	if (!error)
		error = session->traps->alone ?
				sigtrap_guards_find_alone(session->planner, &session->modules,
							  &list) :
				sigtrap_guards_find(session->planner, &session->modules, &list);
	for (size_t i = 0; i < list.count && !error; i++)
		error = own_probes_add_guard(&session->traps->guards, list.items[i].module,
					     list.items[i].address, "syscall", false);
	vec_free(&list);
	return error;
}

/* A thread that has SIGTRAP blocked; 0: none. */
static pid_t find_blocked(const struct session *session)
{
	struct tids tids = { 0 };
	_cleanup_error_ struct error *gone = threads_list(session->proc, &tids);
	pid_t found = 0;

	for (size_t i = 0; i < tids.count && !gone && !found; i++) {
		struct thread_status status;
		_cleanup_error_ struct error *ended =
			proc_status_read(session->proc->pid, tids.items[i], &status);

		if (!ended && (status.blocked & DT_SIGTRAP_BIT))
			found = tids.items[i];
	}
	vec_free(&tids);
	return found;
}

static struct error *refuse_blocked(pid_t tid)
{
	return error_new(ERROR_REFUSED,
			 "thread %d has SIGTRAP blocked: a trap there would kill the process", tid);
}

/* Looks at the threads before all code is searched. A thread in a piece of libc that blocks all
 * signals leaves it soon, so it is looked at again. */
static struct error *check_blocked(struct session *session)
{
	struct traps *traps = session->traps;

	if (session->agent && session->agent->control->traps)
		return NULL;
	if (now_ns() >= traps->blocked_until) {
		for (int i = 0; i < LOOKS && (traps->blocked = find_blocked(session)); i++)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		traps->blocked_until = now_ns() + BELIEVED_NS;
	}
	return traps->blocked ? refuse_blocked(traps->blocked) : NULL;
}

struct error *traps_allow(void *context, const struct module *module)
{
	struct session *session = context;
	struct traps *traps = session->traps;
	struct error *error = sigtrap_guards_module(module);
	if (!error)
		error = check_blocked(session);
	if (error)
		return error;
	if (!traps->judged)
		traps->refusal = judge(session);
	traps->judged = true;
	if (traps->alone)
		return error_new(ERROR_REFUSED, "no libc whose signal masks could be watched");
	return traps->refusal ? error_new(ERROR_REFUSED, "%s", error_text(traps->refusal)) : NULL;
}

/* Plain loads need the same guards. They are a matter of speed: a refusal isn't told. */
static bool loads_need_guards(struct session *session)
{
	struct traps *traps = session->traps;

	if (!session->wants_loads)
		return false;
	if (!traps->judged)
		traps->refusal = judge(session);
	traps->judged = true;
	return !traps->refusal;
}

struct error *traps_guard(struct session *session)
{
	struct traps *traps = session->traps;

	assert(session->planner && (!traps->guarded || traps->judged));
	if (traps->guarded ||
	    (!planner_has_new_traps(session->planner) && !loads_need_guards(session)))
		return NULL;
	struct error *error =
		planner_decide(session->planner, traps->guards.items, traps->guards.count);
	for (size_t i = 0; i < traps->guards.count && !error; i++) {
		const struct probe *guard = traps->guards.items[i];

		if (!guard->refusal)
			continue;
		traps->refusal =
			error_new(ERROR_REFUSED, "a system call of %s can't be guarded, at 0x%lx",
				  guard->place.module->name, guard->place.address.v);
		planner_refuse_traps(session->planner, error_text(traps->refusal));
		return NULL;
	}
	traps->guarded = !error;
	return error;
}

bool traps_create(struct session *session)
{
	session->traps = calloc(1, sizeof(*session->traps));
	return session->traps != NULL;
}

void traps_free(struct session *session)
{
	if (!session->traps)
		return;
	own_probes_free(&session->traps->guards);
	error_free(session->traps->refusal);
	free(session->traps);
}

/* ---- reasons to remove traps ----------------------------------------------------------------- */

bool traps_any(const struct session *session)
{
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		if (planner_site(session->planner, i)->way == DIVERT_TRAP)
			return true;
	}
	return false;
}

void traps_look_at(struct session *session, struct module *module)
{
	struct traps *traps = session->traps;

	if (traps->judged && !traps->refusal)
		traps->refusal = sigtrap_guards_check_later(session->planner, module);
}

const char *traps_to_lift(struct session *session)
{
	struct traps *traps = session->traps;

	if (!traps->refusal &&
	    __atomic_load_n(&session->agent->pool->filter_asked, __ATOMIC_ACQUIRE)) {
		traps->refusal = error_new(ERROR_REFUSED,
					   "it filters its system calls, and a trap needs one");
		traps->judged = true;
	}
	return traps->refusal && traps_any(session) ? error_text(traps->refusal) : NULL;
}

bool traps_to_unguard(const struct session *session)
{
	return session->traps->guarded && !traps_any(session) &&
	       __atomic_load_n(&session->agent->pool->filter_asked, __ATOMIC_ACQUIRE);
}

/* ---- the handler ----------------------------------------------------------------------------- */

static struct error *get_action(struct proc *proc, struct stop *stop, taddr traps, unsigned signal,
				struct dt_sigaction *ret_action)
{
	return remote_sigaction_get(proc, stop, FIELD(traps, scratch), signal, ret_action);
}

static struct error *set_action(struct proc *proc, struct stop *stop, taddr traps,
				const struct dt_sigaction *action)
{
	return remote_sigaction_set(proc, stop, FIELD(traps, scratch), DT_SIGTRAP, action);
}

/* Refuses handlers with SIGTRAP blocked, which may hit a trap. *ret_own: the action of SIGTRAP. */
static struct error *check_handlers(struct session *session, struct stop *stop, taddr traps,
				    struct dt_sigaction *ret_own)
{
	struct error *error = NULL;

	for (unsigned signal = 1; signal <= DT_SIGNALS && !error; signal++) {
		struct dt_sigaction action;

		error = get_action(session->proc, stop, traps, signal, &action);
		if (!error)
			error = fronts_own_action(session, signal, &action);
		if (!error && signal == DT_SIGTRAP)
			*ret_own = action;
		else if (!error && action.handler > 1 && (action.mask & DT_SIGTRAP_BIT))
			error = error_new(ERROR_REFUSED, "its handler of signal %u blocks SIGTRAP",
					  signal);
	}
	return error;
}

/* Fills in the mapped memory, and tells the guards of it: from then on they are active. */
static struct error *fill_in(struct session *session, struct stop *stop, taddr traps)
{
	struct dt_control *control = session->agent->control;
	struct dt_sigaction own = { 0 };
	uint32_t pid = (uint32_t)session->proc->inner_pid;
	struct error *error = check_handlers(session, stop, traps, &own);

	if (!error)
		error = mem_write(session->proc, FIELD(traps, action), &own, sizeof(own));
	if (!error)
		error = mem_write(session->proc, FIELD(traps, pid), &pid, sizeof(pid));
	if (!error)
		__atomic_store_n(&control->traps, traps.v, __ATOMIC_RELEASE);
	return error;
}

static struct error *install(struct session *session, struct stop *stop)
{
	const struct agent *agent = session->agent;
	struct dt_sigaction ours = remote_sigaction_ours(agent->trap_at, agent->trap_return_at);
	taddr traps;

	/* another signal's handler may interrupt ours, and run into a trap */
	ours.flags |= SA_NODEFER_BIT;
	assert(!agent->control->traps && session->traps->guarded);
	struct error *error =
		near_find_lone(session->proc, agent->control_at, memory.size, &traps);
	if (error)
		return error;
	agent->control->traps_memory = traps.v; /* before mmap, as for fronts */
	error = private_memory_map(stop, &memory, traps);
	if (error) {
		agent->control->traps_memory = 0;
		return error;
	}
	error = fill_in(session, stop, traps);
	if (!error)
		error = set_action(session->proc, stop, traps, &ours);
	if (!error) {
		planner_traps_ready(session->planner);
		return NULL;
	}
	agent->control->traps = 0;
	error_free(private_memory_unmap(stop, &memory, traps));
	agent->control->traps_memory = 0;
	return error;
}

struct error *traps_give_back(const struct session *session, struct proc *proc, struct stop *stop)
{
	const struct dt_control *control = session->agent->control;
	taddr traps = taddr_of(control->traps_memory);
	struct dt_sigaction own;
	bool mapped = false;
	struct error *error = traps.v ? private_memory_find(proc, &memory, traps, &mapped) : NULL;

	if (error || !mapped)
		return error;
	if (control->traps)
		error = mem_read(proc, FIELD(traps, action), &own, sizeof(own));
	if (!error && control->traps)
		error = remote_sigaction_give_back(proc, stop, FIELD(traps, scratch), DT_SIGTRAP,
						   session->agent->agent_at, &own);
	return error;
}

struct error *traps_list_memory(const struct session *session, struct proc *proc,
				struct remote_map_list *list)
{
	return private_memory_list(proc, &memory, taddr_of(session->agent->control->traps_memory),
				   list);
}

bool traps_find_threads(const struct session *session, const struct stop *stop)
{
	const struct dt_control *control = session->agent->control;

	for (size_t i = 0; i < DT_TRAPS_MAX && control->traps; i++) {
		uint64_t address = control->trap_table[i].address;

		for (size_t j = 0; j < stop_thread_count(stop) && address; j++) {
			if (stop_thread_rip(stop, j).v == address + 1)
				return true;
		}
	}
	return false;
}

/* ---- sites ----------------------------------------------------------------------------------- */

/* The trap's entry, or a free one for it; NULL: neither. */
static struct dt_trap *find_entry(struct dt_control *control, uint64_t address)
{
	struct dt_trap *unused = NULL;

	for (uint32_t i = 0; i < DT_TRAP_REACH; i++) {
		struct dt_trap *entry =
			&control->trap_table[(dt_trap_hash(address) + i) & (DT_TRAPS_MAX - 1)];

		if (entry->address == address)
			return entry;
		if (!entry->address && !unused)
			unused = entry;
	}
	return unused;
}

bool traps_note(struct session *session, const struct site *site)
{
	assert(site->way == DIVERT_TRAP && site->piece.size);
	struct dt_trap *entry = find_entry(session->agent->control, site->address.v);

	if (!entry)
		return false;
	entry->to = site->piece.at.v;
	__atomic_store_n(&entry->address, site->address.v, __ATOMIC_RELEASE);
	return true;
}

void traps_note_again(struct session *session)
{
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		const struct site *site = planner_site(session->planner, i);

		if (site->way == DIVERT_TRAP && site->patch.state == PATCH_PLACED)
			traps_note(session, site);
	}
}

void traps_forget(struct session *session, const struct site *site)
{
	struct dt_trap *entry = find_entry(session->agent->control, site->address.v);

	if (site->way == DIVERT_TRAP && entry && entry->address == site->address.v &&
	    entry->to == site->piece.at.v)
		__atomic_store_n(&entry->address, 0, __ATOMIC_RELEASE);
}

static void fail_site(struct site *site, const char *reason)
{
	error_free(site->patch.error);
	site->patch.error = error_new(ERROR_REFUSED, "%s", reason);
	site->patch.state = PATCH_FAILED;
}

/* Lists the traps to place. Caller frees. */
static struct patch_site **list_traps(struct session *session, size_t *ret_count)
{
	struct patch_site **list = calloc(planner_site_count(session->planner) + 1, sizeof(*list));
	size_t count = 0;

	for (size_t i = 0; i < planner_site_count(session->planner) && list; i++) {
		struct site *site = planner_site(session->planner, i);

		if (site->way != DIVERT_TRAP || site->patch.state != PATCH_PLANNED)
			continue;
		if (traps_note(session, site))
			list[count++] = &site->patch;
		else
			fail_site(site, "too many traps");
	}
	*ret_count = count;
	return list;
}

struct error *traps_check_guards(const struct session *session)
{
	for (size_t i = 0; i < session->traps->guards.count; i++) {
		const struct probe *guard = session->traps->guards.items[i];

		if (!guard->site || guard->site->patch.state != PATCH_PLACED)
			return error_new(ERROR_REFUSED,
					 "a system call of %s can't be guarded, at 0x%lx",
					 guard->place.module->name, guard->place.address.v);
	}
	return NULL;
}

/* From the first instruction that asks the agent up to the end of the system call, in a guard's
 * trampoline. */
static struct patch_range guard_range(const struct probe *guard)
{
	const struct patch_site *patch = &guard->site->patch;
	int64_t offset = taddr_diff(guard->place.address, patch->address);
	struct patch_range range = { 0 };

	for (size_t i = 0; i + 1 < patch->move_count; i++) {
		if (patch->moves[i].offset == offset)
			range = (struct patch_range){ .start = taddr_add(patch->moves[i].copy, 1),
						      .end = patch->moves[i + 1].copy };
	}
	assert(range.start.v < range.end.v); /* the guarded instruction is one of the site's */
	return range;
}

/* Is the thread about to make a guarded system call, as it was decided before? A thread in the call
 * shows its mask. */
static bool is_passing(struct stop *stop, size_t index, const struct patch_range *range)
{
	return taddr_within(stop_thread_rip(stop, index), range->start, range->end) &&
	       !stop_thread_rewound(stop, index);
}

/* A thread that waits for us inside the agent (N1) has passed no guard: guards don't wait. */
static bool sleeps(struct stop *stop, size_t index)
{
	return stop_thread_restarts(stop, index) || stop_thread_rewound(stop, index);
}

/* The guards that are in place, of both lists: those of rt_sigaction may be in either. Returns
 * their number. */
static size_t list_guards(const struct session *session, struct patch_range *ranges)
{
	const struct own_probes *lists[] = { &session->traps->guards, &session->own_probes };
	size_t count = 0;

	for (size_t i = 0; i < 2; i++) {
		for (size_t j = 0; j < lists[i]->count; j++) {
			const struct probe *probe = lists[i]->items[j];

			if (probe->event.guard && probe->site &&
			    probe->site->patch.state == PATCH_PLACED)
				ranges[count++] = guard_range(probe);
		}
	}
	return count;
}

/* Does one of the words lead into one of the ranges? Few words lead anywhere near. */
static bool lead_into(const uint64_t *words, size_t word_count, const struct patch_range *ranges,
		      size_t count)
{
	uint64_t low = UINT64_MAX, high = 0;

	for (size_t i = 0; i < count; i++) {
		low = ranges[i].start.v < low ? ranges[i].start.v : low;
		high = ranges[i].end.v > high ? ranges[i].end.v : high;
	}
	for (size_t i = 0; i < word_count; i++) {
		if (words[i] < low || words[i] >= high)
			continue;
		for (size_t j = 0; j < count; j++) {
			if (taddr_within(taddr_of(words[i]), ranges[j].start, ranges[j].end))
				return true;
		}
	}
	return false;
}

/* Has a guard led the thread into the agent? Its return address is on the stack. */
static bool came_by_guard(const struct session *session, struct stop *stop, size_t index,
			  const struct patch_range *ranges, size_t count)
{
	uint64_t words[GUARD_DEPTH / 8], at = stop_thread_rsp(stop, index).v;

	for (uint64_t done = 0, size; done < GUARD_DEPTH; done += size) {
		size = DT_PAGE - (at + done) % DT_PAGE;
		size = size < GUARD_DEPTH - done ? size : GUARD_DEPTH - done;
		_cleanup_error_ struct error *error =
			mem_read(session->proc, taddr_of(at + done), words, size);
		if (error)
			return !done; /* the stack ends there, or nobody knows */
		if (lead_into(words, size / 8, ranges, count))
			return true;
	}
	return false;
}

/* A guard that a thread passed before the first trap lets SIGTRAP be blocked, and its action be
 * changed: no trap is placed until that system call is over. */
struct error *traps_check_passing(const struct session *session, struct stop *stop, bool hits)
{
	const struct agent *agent = session->agent;
	_cleanup_free_ struct patch_range *ranges =
		calloc(session->traps->guards.count + session->own_probes.count + 1,
		       sizeof(*ranges));
	bool found = false;

	if (!ranges)
		return error_new(ERROR_FAILED, "out of memory");
	size_t count = list_guards(session, ranges);
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; j < stop_thread_count(stop); j++)
			found |= is_passing(stop, j, &ranges[i]);
	}
	/* a handler may have interrupted it there */
	struct patch_range *inside = &ranges[count];
	*inside = (struct patch_range){ .start = agent->agent_at,
					.end = taddr_add(agent->agent_at, DT_AGENT_SIZE) };
	/* a guard's trampoline that is garbage has no range here */
	hits |= session->garbage.count != 0;
	for (size_t j = 0; j < stop_thread_count(stop) && !found; j++) {
		if (taddr_within(stop_thread_rip(stop, j), inside->start, inside->end) &&
		    !sleeps(stop, j))
			found = hits || came_by_guard(session, stop, j, ranges, count);
	}
	struct error *error = NULL;
	if (!found)
		error = patch_find_frames(session->proc, stop, ranges, count + 1, &found);
	if (error || !found)
		return error;
	return error_new(ERROR_REFUSED, "a thread is in a system call that may block SIGTRAP");
}

static struct error *check_threads(const struct session *session, struct stop *stop)
{
	struct error *error = NULL;

	if (stop_has_sharers(stop))
		return error_new(ERROR_REFUSED,
				 "another process shares its memory, and may block SIGTRAP");
	for (size_t i = 0; i < stop_thread_count(stop) && !error; i++) {
		uint64_t mask = 0;

		error = stop_thread_mask(stop, i, &mask);
		if (!error && (mask & DT_SIGTRAP_BIT))
			error = refuse_blocked(stop_thread_tid(stop, i));
	}
	return error ? error : traps_check_passing(session, stop, true);
}

static struct error *place_held(struct session *session, struct stop *stop,
				struct patch_site **list, size_t count)
{
	struct patch_stats stats;
	struct error *error = NULL;

	if (!session->agent->control->traps)
		error = check_threads(session, stop);
	if (!error && !session->agent->control->traps)
		error = install(session, stop); /* from here on no thread can block SIGTRAP */
	return error ? error : patch_place(session->proc, stop, list, count, NULL, &stats);
}

/* Tries again while a thread is in a short piece of libc that blocks all signals, or none can be
 * borrowed. */
static struct error *place_tries(struct session *session, struct stop *held,
				 struct patch_site **list, size_t count)
{
	struct error *error = traps_check_guards(session);
	unsigned unfit = 0, refusals = 0;
	long pause = PAUSE_MS;

	while (!error) {
		_cleanup_(cleanup_stop) struct stop *stop = NULL;

		if (!held)
			error = stop_all_or_quit(session->proc, STOP_TIMEOUT_MS, &stop);
		if (!error)
			error = place_held(session, held ? held : stop, list, count);
		if (!error || held)
			break;
		stop_release(take_ptr(&stop), NULL);
		if (unfit_try_again(&error, &unfit))
			continue;
		if (error_kind(error) != ERROR_REFUSED || refusals++ == TRIES)
			break;
		error_free(take_ptr(&error));
		nanosleep(&(struct timespec){ .tv_nsec = pause * 1000000L }, NULL);
		pause = 2 * pause < PAUSE_MAX_MS ? 2 * pause : PAUSE_MAX_MS;
	}
	return error;
}

struct error *traps_place(struct session *session, struct stop *held)
{
	size_t count = 0;
	_cleanup_free_ struct patch_site **list = list_traps(session, &count);
	struct error *error = !list ? error_new(ERROR_FAILED, "out of memory") :
			      count ? place_tries(session, held, list, count) :
				      NULL;

	if (!error || error_kind(error) != ERROR_REFUSED)
		return error;
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct site *site = planner_site(session->planner, i);

		if (site->way == DIVERT_TRAP && site->patch.state == PATCH_PLANNED)
			fail_site(site, error_text(error));
	}
	error_free(error);
	return NULL;
}
