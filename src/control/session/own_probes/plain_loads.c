#include "plain_loads.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "control/remote/remote.h"
#include "control/remote/remote_sigaction.h"
#include "control/remote/syscall_gadget.h"
#include "control/remote/unfit.h"
#include "control/stop/sigframe.h"
#include "fronts.h"
#include "shared/tiles.h"
#include "traps.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define FRAME_DEFAULT 4096u /* of kernels that don't tell */
#define FRAME_MOST 6144u /* else the room on a thread's stack (T3) is too little */
#define HANDLER_NEEDS 2048u /* of dt_front */
#define TRIES 4
#define WATCH_TRIES 16
#define WATCH_NS 500000000ULL
#define PAUSE_NS 2000000L
#define WITH_INFO 4u /* SA_SIGINFO */
#define RESTARTS 0x10000000u
#define HAS_RESTORER 0x04000000u
#define ONCE 0x80000000u /* SA_RESETHAND */
#define FIELD(at, field) taddr_add((at), (int64_t)offsetof(struct dt_fronts, field))

static uint32_t largest_frame(void)
{
	unsigned long size = getauxval(AT_MINSIGSTKSZ);

	return size ? (uint32_t)size : FRAME_DEFAULT;
}

/* (X8) The frames of a process that may not use AMX's tiles. */
static uint32_t least_frame(void)
{
	uint32_t largest = largest_frame(), tiles = sigframe_tile_bytes();

	return tiles < largest ? largest - tiles : largest;
}

/* True also if nobody can tell. */
static bool may_use_tiles(const struct session *session, struct stop *stop, taddr at)
{
	const uint64_t args[6] = { ARCH_GET_XCOMP_PERM, FIELD(at, scratch).v };
	uint64_t permitted = 0;
	int64_t result = 0;
	_cleanup_error_ struct error *error =
		remote_syscall(stop, SYS_arch_prctl, args, &result);

	if (!error && !result)
		error = mem_read(session->proc, FIELD(at, scratch), &permitted, sizeof(permitted));
	return error || result || permitted >> DT_TILE_DATA & 1;
}

static uint32_t frame_size(const struct session *session, struct stop *stop, taddr at)
{
	bool is_large = least_frame() < largest_frame() && may_use_tiles(session, stop, at);

	return is_large ? largest_frame() : least_frame();
}

void loads_want(struct session *session, const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct tramp_event *event = &list->items[i]->probe.event;

		session->wants_loads |= event->program ||
					(event->at_exit && event->at_exit->program);
	}
}

struct error *loads_lift(struct session *session)
{
	struct dt_control *control = session->agent->control;

	if (!(control->flags & DT_LOADS) ||
	    (!session->traps->refusal &&
	     !__atomic_load_n(&session->agent->pool->filter_asked, __ATOMIC_ACQUIRE)))
		return NULL;
	session->refuses_loads = true;
	__atomic_fetch_and(&control->flags, ~DT_LOADS, __ATOMIC_RELEASE);
	return fronts_end_loads(session);
}

/* ---- conditions, with all threads held ------------------------------------------------------- */

static const struct probe *find_watch(const struct session *session, taddr handler)
{
	for (size_t i = 0; i < session->own_probes.count; i++) {
		const struct probe *probe = session->own_probes.items[i];

		if (probe->event.asks == DT_ASK_SHUT &&
		    taddr_equal(probe->place.address, handler))
			return probe;
	}
	return NULL;
}

static struct error *want_watch(struct session *session, taddr handler)
{
	for (size_t i = 0; i < session->handlers_due.count; i++) {
		if (taddr_equal(session->handlers_due.items[i], handler))
			return NULL;
	}
	return vec_push(&session->handlers_due, handler) ? NULL :
							   error_new(ERROR_FAILED, "out of memory");
}

/* Notes that the handler has a probe of ours; refuses plain loads if it can't have one. */
static void note_watch(struct session *session, const struct probe *probe, struct dt_fronts *fronts)
{
	uint64_t handler = probe->place.address.v;

	for (uint32_t i = 0; i < fronts->watched_count; i++) {
		if (fronts->watched[i] == handler)
			return;
	}
	if (!probe->site || probe->site->patch.state != PATCH_PLACED ||
	    fronts->watched_count == DT_WATCHED_MAX)
		session->refuses_loads = true;
	else
		fronts->watched[fronts->watched_count++] = handler;
}

/* Actions of other signals; handler 0 where there is none, and where dt_trap begins it, which shuts
 * the thread (X6). */
static struct error *get_others(struct session *session, struct stop *stop, taddr at,
				uint64_t caught, struct dt_sigaction ret_actions[DT_SIGNALS])
{
	struct error *error = NULL;

	memset(ret_actions, 0, DT_SIGNALS * sizeof(*ret_actions));
	for (unsigned i = 0; i < DT_SIGNALS && !error; i++) {
		if (!(caught >> i & 1) || DT_LOADS_BITS >> i & 1)
			continue;
		error = remote_sigaction_get(session->proc, stop, FIELD(at, scratch), i + 1,
					     &ret_actions[i]);
		if (!error)
			error = fronts_own_action(session, i + 1, &ret_actions[i]);
		if (!error && ret_actions[i].handler == session->agent->trap_at.v)
			ret_actions[i].handler = 0;
	}
	return error;
}

/* (X6) Of a handler of another signal. */
static struct error *check_handler(struct session *session, const struct dt_sigaction *action,
				   unsigned signal, struct dt_fronts *fronts)
{
	const struct probe *probe;

	if (action->handler <= 1 ||
	    !(action->mask & DT_LOADS_BITS || fronts->spared >> (signal - 1) & 1))
		return NULL;
	probe = find_watch(session, taddr_of(action->handler));
	if (!probe)
		return want_watch(session, taddr_of(action->handler));
	note_watch(session, probe, fronts);
	return NULL;
}

/* (X6) All of them, but for the probes. (X19) Those that run on the alternate stack keep faults
 * away from there. */
static void add_up(const struct dt_sigaction actions[DT_SIGNALS], struct dt_fronts *fronts)
{
	for (unsigned i = 0; i < DT_SIGNALS; i++) {
		if (actions[i].handler <= 1)
			continue;
		fronts->spared |= dt_spared_by(&actions[i], i + 1);
		if (actions[i].flags & DT_SA_ONSTACK)
			fronts->elsewhere = DT_ELSEWHERE_NEVER;
	}
}

/* *ret_elsewhere: DT_ELSEWHERE_NO if handlers of other signals permit more; else not less than
 * DT_ELSEWHERE_NEVER. */
static struct error *check_handlers(struct session *session, struct stop *stop, taddr at,
				    uint64_t caught, uint32_t *ret_elsewhere)
{
	struct dt_sigaction actions[DT_SIGNALS];
	struct dt_fronts fronts;
	struct error *error = mem_read(session->proc, at, &fronts, sizeof(fronts));

	if (!error)
		error = get_others(session, stop, at, caught, actions);
	if (error)
		return error;
	session->refuses_loads |= fronts.closed == DT_CLOSED;
	fronts.watched_count = 0;
	fronts.spared = 0;
	if (fronts.elsewhere < DT_ELSEWHERE_NEVER) /* a handler may be running there */
		fronts.elsewhere = DT_ELSEWHERE_NO;
	add_up(actions, &fronts);
	for (unsigned i = 0; i < DT_SIGNALS && !error; i++)
		error = check_handler(session, &actions[i], i + 1, &fronts);
	*ret_elsewhere = fronts.elsewhere;
	return error ? error :
		       mem_write(session->proc, FIELD(at, watched_count), &fronts.watched_count,
				 sizeof(fronts) - offsetof(struct dt_fronts, watched_count));
}

/* (X5) Does the thread wait with the signals open, which it has blocked otherwise? Its call has
 * passed no guard. */
static struct error *check_thread(const struct session *session, struct stop *stop, size_t index,
				  bool *ret_waits)
{
	struct thread_status status = { 0 };
	uint64_t mask = 0;
	struct error *error = stop_thread_mask(stop, index, &mask);

	if (error || !(mask & DT_LOADS_BITS))
		return error;
	error = proc_status_read(session->proc->pid, stop_thread_tid(stop, index), &status);
	*ret_waits |= !error && (status.blocked & DT_LOADS_BITS) != (mask & DT_LOADS_BITS);
	return error;
}

static struct error *check_threads(const struct session *session, struct stop *stop,
				   bool *ret_waits)
{
	struct error *error = NULL;

	*ret_waits = stop_has_sharers(stop);
	for (size_t i = 0; i < stop_thread_count(stop) && !error && !*ret_waits; i++)
		error = check_thread(session, stop, i, ret_waits);
	if (error || *ret_waits)
		return error;
	error = traps_check_passing(session, stop, false);
	if (error && error_kind(error) == ERROR_REFUSED) {
		error_free(take_ptr(&error));
		*ret_waits = true;
	}
	return error;
}

/* ---- handlers -------------------------------------------------------------------------------- */

/* As in_front of target/signals/front.c. */
static struct dt_sigaction in_front(const struct session *session, const struct dt_fronts *fronts,
				    uint32_t index)
{
	const struct agent *agent = session->agent;
	struct dt_sigaction ours = fronts->actions[index];

	if (ours.handler <= 1) {
		ours.flags = HAS_RESTORER | RESTARTS;
		ours.flags |= dt_goes_elsewhere(fronts, index) ? DT_SA_ONSTACK : 0;
		ours.restorer = agent->trap_return_at.v;
	}
	ours.handler = agent->control->front;
	ours.flags = (ours.flags & ~(uint64_t)(ONCE | DT_SA_NODEFER)) | WITH_INFO;
	ours.mask = ~0ULL;
	return ours;
}

/* The program's own action, to *ret_own and to where the agent finds it. */
static struct error *get_own(struct session *session, struct stop *stop, taddr at, uint32_t index,
			     struct dt_sigaction *ret_own)
{
	struct error *error = remote_sigaction_get(session->proc, stop, FIELD(at, scratch),
						   dt_front_signals[index], ret_own);

	if (!error && ret_own->handler == session->agent->control->front)
		error = mem_read(session->proc, FIELD(at, actions[index]), ret_own,
				 sizeof(*ret_own));
	return error ? error :
		       mem_write(session->proc, FIELD(at, actions[index]), ret_own,
				 sizeof(*ret_own));
}

static struct error *put_in_front(struct session *session, struct stop *stop, taddr at,
				  const struct dt_fronts *fronts, uint32_t index)
{
	struct dt_sigaction ours = in_front(session, fronts, index);

	return remote_sigaction_set(session->proc, stop, FIELD(at, scratch),
				    dt_front_signals[index], &ours);
}

/* Each may depend on the other's own (X18). */
static struct error *put_both(struct session *session, struct stop *stop, taddr at,
			      uint32_t elsewhere)
{
	struct dt_fronts fronts = { .elsewhere = elsewhere };
	struct error *error =
		get_own(session, stop, at, DT_FRONT_BUS, &fronts.actions[DT_FRONT_BUS]);

	if (!error)
		error = get_own(session, stop, at, DT_FRONT_SEGV, &fronts.actions[DT_FRONT_SEGV]);
	if (!error)
		error = put_in_front(session, stop, at, &fronts, DT_FRONT_BUS);
	if (!error)
		error = put_in_front(session, stop, at, &fronts, DT_FRONT_SEGV);
	if (elsewhere < DT_ELSEWHERE_NEVER && dt_all_go_elsewhere(&fronts))
		fronts.elsewhere = DT_ELSEWHERE_YES;
	return error ? error :
		       mem_write(session->proc, FIELD(at, elsewhere), &fronts.elsewhere,
				 sizeof(fronts.elsewhere));
}

/* The word comes first: dt_front begins a handler of the program's as it says (X4), and nobody
 * loads before DT_LOADS is set. */
static struct error *install(struct session *session, struct stop *stop, taddr at, uint32_t size,
			     uint32_t elsewhere)
{
	uint32_t frame = size + HANDLER_NEEDS, full = DT_LOADS_FULL;
	struct error *error = mem_write(session->proc, FIELD(at, frame), &frame, sizeof(frame));

	if (!error)
		error = mem_write(session->proc, FIELD(at, full), &full, sizeof(full));
	return error ? error : put_both(session, stop, at, elsewhere);
}

/* *ret_done false: a thread is where it mustn't be, for now. */
static struct error *begin_held(struct session *session, struct stop *stop, bool *ret_done)
{
	taddr at = taddr_of(session->agent->control->fronts);
	struct thread_status status = { 0 };
	bool waits = false, begins = false;
	uint32_t open = 0, elsewhere = DT_ELSEWHERE_NO;
	struct error *error = check_threads(session, stop, &waits);

	*ret_done = !waits;
	if (error || waits)
		return error;
	error = proc_status_read(session->proc->pid, stop_thread_tid(stop, 0), &status);
	if (!error)
		error = remote_borrow(stop);
	if (error)
		return error;
	uint32_t frame = frame_size(session, stop, at);
	session->refuses_loads |= frame > FRAME_MOST || status.ignored & DT_LOADS_BITS; /* X12 */
	error = check_handlers(session, stop, at, status.caught, &elsewhere);
	begins = !error && !session->refuses_loads && !session->handlers_due.count;
	if (begins)
		error = install(session, stop, at, frame, elsewhere);
	struct error *end = remote_give_back(stop);
	if (error)
		error_free(end);
	else
		error = end;
	if (error || !begins)
		return error;
	session->agent->pool->handlers_asked = 0;
	__atomic_fetch_or(&session->agent->control->flags, DT_LOADS, __ATOMIC_RELEASE);
	return mem_write(session->proc, FIELD(at, closed), &open, sizeof(open));
}

static bool loads_asks(const struct session *session)
{
	return __atomic_load_n(&session->agent->pool->handlers_asked, __ATOMIC_ACQUIRE);
}

static bool may_begin(const struct session *session)
{
	const struct dt_control *control = session->agent->control;
	_cleanup_error_ struct error *unguarded = NULL;

	if (!session->wants_loads || session->refuses_loads ||
	    (control->flags & DT_LOADS && !loads_asks(session)) ||
	    control->flags & DT_NO_SYSCALLS || !control->fronts || control->calls ||
	    least_frame() > FRAME_MOST || !session->traps->guarded || session->traps->refusal)
		return false;
	unguarded = traps_check_guards(session);
	return !unguarded;
}

/* Finds an instruction to borrow before the stop: a guard may be on the one that was used. */
static void find_gadgets(struct session *session)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct syscall_gadgets gadgets;
	struct error *error = maps_read(session->proc, &maps);

	if (!error)
		error = syscall_gadget_find(session->proc, &maps, &gadgets);
	error_free(error); /* the stop says so */
}

void loads_begin(struct session *session, struct stop *held)
{
	struct error *error = NULL;
	bool done = false;

	if (!may_begin(session))
		return;
	find_gadgets(session);
	for (int i = 0; i < TRIES && !error && !done; i++) {
		_cleanup_(cleanup_stop) struct stop *stop = NULL;

		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
		if (!held)
			error = stop_all_or_quit(session->proc, STOP_TIMEOUT_MS, &stop);
		if (!error)
			error = begin_held(session, held ? held : stop, &done);
		if (unfit_is(error)) {
			error_free(take_ptr(&error));
			done = false;
		}
		if (held)
			break;
	}
	session->loads_due = !done && !error && !held;
	/* all probes are placed, and work without; the next step notices a target that is gone */
	session->refuses_loads |= error != NULL;
	error_free(error);
}

/* ---- handlers that block the signals (X6) ---------------------------------------------------- */

/* The agent of a forked child may have asked, whose memory this isn't. */
static bool is_closed(struct session *session)
{
	taddr at = taddr_of(session->agent->control->fronts);
	uint32_t closed = 0;
	_cleanup_error_ struct error *unreadable =
		mem_read(session->proc, FIELD(at, closed), &closed, sizeof(closed));

	return !unreadable && closed == DT_CLOSED_HANDLER;
}

static struct error *add_watch(struct session *session, taddr handler)
{
	struct module *module = modules_at(&session->modules, handler);
	struct probe *probe;

	if (!module)
		return error_new(ERROR_REFUSED, "a handler of signals is in no module");
	struct error *error = own_probes_add(&session->own_probes, module,
					     handler.v - module->bias.v, "a handler", &probe);
	if (!error)
		probe->event.asks = DT_ASK_SHUT;
	return error;
}

bool loads_want_watches(struct session *session, uint64_t now)
{
	struct error *error = NULL;

	if (!session->agent || !session->agent->control->fronts || session->refuses_loads ||
	    now < session->loads_next ||
	    !(loads_asks(session) || session->handlers_due.count || session->loads_due))
		return false;
	session->loads_next = now + WATCH_NS;
	if (!session->handlers_due.count && !session->loads_due && !is_closed(session)) {
		session->agent->pool->handlers_asked = 0;
		return false;
	}
	if (!session->handlers_due.count)
		loads_begin(session, NULL);
	session->refuses_loads |= ++session->loads_tries > WATCH_TRIES;
	for (size_t i = 0; i < session->handlers_due.count && !error; i++)
		error = add_watch(session, session->handlers_due.items[i]);
	bool any = session->handlers_due.count && !session->refuses_loads && !error;
	session->handlers_due.count = 0;
	session->refuses_loads |= error != NULL;
	error_free(error);
	return any;
}
