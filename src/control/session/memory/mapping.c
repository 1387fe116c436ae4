/*
 * mapping.c - map memory in the target, through one borrowed thread.
 *
 * Places of windows are chosen before the stop, from a list of mappings that may be outdated by the
 * time of the stop. A window is only ever mapped where nothing is mapped. If its place is taken
 * meanwhile, another one is chosen while the threads are held.
 */
#include "mapping.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/proc/judged.h"
#include "control/proc/proc_guise.h"
#include "control/exits/exits.h"
#include "control/fence/trial.h"
#include "control/session/own_probes/fencing.h"
#include "control/session/own_probes/fronts.h"
#include "control/session/own_probes/unwinding.h"
#include "control/tracers/dispatch.h"
#include "control/values/describe/stable_memory.h"
#include "control/agent/agent_path.h"
#include "control/agent/huge_pool.h"
#include "control/remote/remote.h"
#include "control/remote/unfit.h"
#include "control/base/cleanup.h"
#include "control/stop/prejudge.h"
#include "control/stop/stop.h"

#define WINDOW_PAGES_MIN 16
#define WINDOW_PAGES_SPLIT 256 /* larger needs may be split */
/* Windows that puns leave to trampolines, exits and unwinders, of now and of later changes. */
#define WINDOWS_KEPT (DT_WINDOWS_MAX / 4)

struct making {
	struct session *session;
	const struct mapping_wants *wants;
	struct plan_needs needs;
	/* one per need, and behind these the one of return stubs if there is a place for them */
	VEC(struct code_window) windows;
	size_t splits;
	taddr base_at; /* agent_find_place */
	taddr pool_at; /* huge_pool_find_place */
	taddr fronts_at; /* fronts_find_place */
	taddr returns_at; /* exits_find_places */
	struct agent_elf *agent_elf;
	unsigned closed; /* enum fence_part: parts that the target's filters close */
	struct fence trial; /* our own filters, if they can only be tried (trial.h) */
	struct fencing_blocks blocks; /* of the threads that were held */
	bool asks_tids; /* of them, when they run again */
};

static bool has_room(struct session *session, const struct plan_need *need)
{
	struct near_piece piece;
	bool found = need->fixed ? near_pool_has(session->code, need->low) :
				   near_pool_alloc(session->code, need->low, need->high,
						   (uint32_t)need->bytes, &piece);

	if (found && !need->fixed)
		near_pool_free(session->code, piece);
	return found;
}

/* Finds the planner's needs for which there is no room yet. */
static struct error *find_needs(struct session *session, struct plan_needs *ret_needs)
{
	struct error *error = planner_needs(session->planner, ret_needs);
	size_t kept = 0;

	for (size_t i = 0; !error && i < ret_needs->count; i++) {
		if (!session->code || !has_room(session, &ret_needs->items[i]))
			ret_needs->items[kept++] = ret_needs->items[i];
	}
	ret_needs->count = kept;
	return error;
}

static uint32_t pages_of(const struct plan_need *need)
{
	uint32_t pages = (uint32_t)((need->bytes + DT_PAGE - 1) / DT_PAGE);

	return pages < WINDOW_PAGES_MIN && !need->fixed ? WINDOW_PAGES_MIN : pages;
}

/* Drops the fixed needs for which there would be no window: the planner refuses their sites. */
static void drop_excess(struct making *making)
{
	const struct agent *agent = making->session->agent;
	size_t used = agent ? agent->control->window_count : 0, fixed = 0, kept = 0;

	for (size_t i = 0; i < making->needs.count; i++) {
		const struct plan_need *need = &making->needs.items[i];

		if (!need->fixed || used + fixed++ < DT_WINDOWS_MAX - WINDOWS_KEPT)
			making->needs.items[kept++] = *need;
	}
	making->needs.count = kept;
}

/* Puts half of the need behind all others. */
static bool split(struct plan_needs *needs, size_t index)
{
	struct plan_need half = needs->items[index];

	half.bytes /= 2;
	needs->items[index].bytes -= half.bytes;
	return vec_push(needs, half);
}

/* Chooses the need's place. Address space may lie in pieces between hops. */
static struct error *find_place(struct making *making, const struct maps *maps, size_t index,
				struct code_window *ret_window)
{
	struct plan_need *need = &making->needs.items[index];
	struct error *error = NULL;

	*ret_window = (struct code_window){ .at = need->low, .pages = pages_of(need) };
	while (!need->fixed && (error = near_find_gap(maps, need->low, need->high,
						      ret_window->pages * DT_PAGE,
						      &ret_window->at))) {
		if (error_kind(error) != ERROR_REFUSED || ret_window->pages < WINDOW_PAGES_SPLIT ||
		    ++making->splits > WINDOWS_KEPT / 2)
			return error;
		error_free(error);
		if (!split(&making->needs, index))
			return error_new(ERROR_FAILED, "out of memory");
		need = &making->needs.items[index];
		ret_window->pages = pages_of(need);
	}
	return error;
}

static uint64_t pool_size(const struct session *session)
{
	return session->parent ? session->parent->agent->pool_size :
				 agent_pool_size(session->options.buffer_size);
}

static void find_agents_places(struct making *making, struct maps *maps)
{
	uint64_t pool = pool_size(making->session);

	making->base_at = agent_find_place(maps);
	if (!making->base_at.v || !maps_claim(maps, making->base_at, AGENT_WHOLE_SIZE)) {
		making->base_at = taddr_of(0);
		making->pool_at = huge_pool_find_place(maps, pool);
		return;
	}
	making->pool_at = huge_pool_find_place(maps, pool);
	if (making->pool_at.v && maps_claim(maps, making->pool_at, pool))
		making->fronts_at = fronts_find_place(maps, making->base_at);
}

static void find_exits_places(struct making *making, struct maps *maps)
{
	struct code_window window;
	taddr at;

	if (making->base_at.v && exits_find_places(maps, making->base_at, &at, &window) &&
	    vec_push(&making->windows, window))
		making->returns_at = at;
}

/* NULL: stubs have none yet. */
static const struct code_window *exits_window(const struct making *making)
{
	return making->returns_at.v ? &making->windows.items[making->needs.count] : NULL;
}

static struct error *find_places(struct making *making)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *error = maps_read(making->session->proc, &maps);

	drop_excess(making);
	for (size_t i = 0; i < making->needs.count && !error; i++) {
		struct code_window window;

		error = find_place(making, &maps, i, &window);
		/* so that the next window goes elsewhere */
		if (!error && (!vec_push(&making->windows, window) ||
			       !maps_claim(&maps, window.at, window.pages * DT_PAGE)))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	/* last: windows need their places */
	if (!error && making->wants->agent)
		find_agents_places(making, &maps);
	if (!error && making->wants->agent && making->wants->exits)
		find_exits_places(making, &maps);
	return error;
}

static struct error *find_agent(struct making *making)
{
	_cleanup_free_ char *agent_path = NULL;
	struct error *error = agent_find(&agent_path);

	return error ? error : agent_prepare(making->session->proc, agent_path, &making->agent_elf);
}

/* ---- steps with a held thread ---------------------------------------------------------------- */

static uint32_t agent_flags(const struct session *session, unsigned closed)
{
	static const uint32_t modes[] = {
		[SESSION_OVERWRITE] = DT_OVERWRITE, [SESSION_BLOCK] = DT_BLOCK
	};

	return (session->options.follow_fork ? DT_FOLLOW_FORK : 0) | modes[session->options.mode] |
	       fencing_flags(session, closed);
}

static struct error *map_agent(struct making *making, struct stop *stop)
{
	struct session *session = making->session;
	bool has_fronts = !(making->closed & FENCE_SIGNAL) && making->fronts_at.v;
	struct ahead next = { 0 };

	if (has_fronts)
		fronts_ahead(&next, making->fronts_at);
	if (making->returns_at.v)
		exits_ahead(&next, making->returns_at);
	const struct agent_options options = {
		.pool_size = session->options.buffer_size,
		.base_at = making->base_at,
		.pool_at = making->pool_at,
		.fronts_at = has_fronts ? making->fronts_at : taddr_of(0),
		.returns_at = making->returns_at,
		.next = &next,
		.fill_later = true,
		.flags = agent_flags(session, making->closed),
		.image = making->agent_elf,
		.windows = making->windows.items,
		.window_count = making->windows.count,
		.share = session->parent ? session->parent->agent : NULL, /* F1 */
	};

	assert(!session->agent);
	session->code = near_pool_create();
	struct error *error =
		session->code ? agent_inject(stop, session->proc, &options, &session->agent)
			      : error_new(ERROR_FAILED, "out of memory");
	if (!error && making->closed & FENCE_WORK)
		session->agent->control->controller = 0;
	return error;
}

/* Maps the window at its chosen place, or else where there is room now. */
static struct error *map_window(struct session *session, struct stop *stop,
				const struct plan_need *need, struct code_window *window)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct error *error =
		agent_map_window(stop, session->agent, window->at, window->pages, &window->offset);

	if (!error || need->fixed || error_kind(error) == ERROR_GONE)
		return error;
	error_free(error);
	error = maps_read(session->proc, &maps);
	if (!error)
		error = near_find_gap(&maps, need->low, need->high, window->pages * DT_PAGE,
				      &window->at);
	return error ? error :
		       agent_map_window(stop, session->agent, window->at, window->pages,
				     &window->offset);
}

/* Maps a window if map_agent didn't. Leaves out a fixed one that can't be mapped: the planner
 * refuses the sites that need it. */
static struct error *add_window(struct session *session, struct stop *stop,
				const struct plan_need *need, struct code_window *window)
{
	struct error *error = window->offset ? NULL : map_window(session, stop, need, window);

	if (error && need->fixed && error_kind(error) != ERROR_GONE) {
		error_free(error);
		return NULL;
	}
	if (error)
		return error;
	bool added = (need->fixed ? near_pool_add_fixed : near_pool_add)(
		session->code, window->at, window->offset, window->pages * DT_PAGE);
	return added ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* (H33) All threads are held: what the process is now it stays until the agent is in. */
static struct error *check_guise(const struct session *session)
{
	char now[PROC_GUISE_SIZE];
	struct error *error =
		session->options.guise ? proc_guise_read(session->proc->pid, now) : NULL;

	if (!error && session->options.guise && strcmp(session->options.guise, now) != 0)
		error = error_new(ERROR_GONE,
				  "process %d has begun another program or has other rights",
				  session->proc->pid);
	return error;
}

/* With 64 threads, to ask them takes a tenth of the stop: done in it only for an agent that has no
 * other way to know a thread, and in a program that begins, which has one. */
static struct error *note_blocks(struct making *making, struct stop *stop)
{
	struct session *session = making->session;
	struct error *error = fencing_note_blocks(stop, &making->blocks);

	bool is_quiet = making->closed & FENCE_RECORD;
	making->asks_tids = !error && !is_quiet && stop_thread_count(stop) > 1;
	if (!error && !making->asks_tids)
		session->agent->control->tid_offset =
			fencing_tid_offset(session, &making->blocks, true);
	return error;
}

static struct error *map_memory(struct making *making, struct stop *stop)
{
	const struct mapping_wants *wants = making->wants;
	struct session *session = making->session;
	struct error *error = wants->agent ? check_guise(session) : NULL;

	if (!error && wants->agent)
		error = fencing_check(session, stop, &making->trial, &making->closed);
	if (!error)
		error = remote_borrow(stop);
	if (error)
		return error;
	if (wants->agent)
		error = map_agent(making, stop);
	if (!error && wants->agent)
		error = note_blocks(making, stop);
	if (!error && wants->agent && !(making->closed & FENCE_SIGNAL))
		error = fronts_map(session, stop);
	for (size_t i = 0; i < making->needs.count && !error; i++)
		error = add_window(session, stop, &making->needs.items[i],
				   &making->windows.items[i]);
	if (!error && wants->exits)
		error = exits_map(session, stop, exits_window(making));
	if (!error && wants->exits && wants->agent)
		session->agent->control->flags |= DT_RETURNS;
	if (!error && wants->unwind)
		error = unwinding_map(session, stop);
	if (!error && wants->tracers)
		error = tracers_map(session, wants->list, stop);
	struct error *end = remote_give_back(stop);
	if (error)
		error_free(end);
	return error ? error : end;
}

void mapping_note_stop(struct session *session, uint64_t us)
{
	if (us > session->stopped_us)
		session->stopped_us = us;
}

static struct error *map_with_stop(struct making *making, struct stop *held)
{
	const struct mapping_wants *wants = making->wants;
	struct proc *proc = making->session->proc;
	_cleanup_(maps_free) struct maps before = { 0 };
	struct stop *stop = NULL;
	struct error *error;
	uint64_t us = 0;

	if (!wants->agent && !wants->exits && !wants->unwind && !wants->tracers &&
	    !making->needs.count)
		return NULL;
	if (held)
		return map_memory(making, held);
	if (wants->agent && proc->filtered)
		prejudge(proc);
	if (wants->agent && (error = maps_read(proc, &before)))
		return error;
	/* One thread would do, but in a process that keeps every CPU busy it would wait for a CPU
	 * at each step. */
	error = wants->agent ? stop_all_and_ask(proc, STOP_TIMEOUT_MS, &stop) :
			       stop_one_or_quit(proc, STOP_TIMEOUT_MS, &stop);
	proc->maps_before = wants->agent ? &before : NULL;
	if (!error)
		error = map_memory(making, stop);
	proc->maps_before = NULL;
	stop_release(stop, &us);
	if (wants->agent)
		mapping_note_stop(making->session, us);
	return error;
}

static struct error *map_with_stops(struct making *making, struct stop *held)
{
	struct error *error = map_with_stop(making, held);

	for (unsigned tries = 0; !held && unfit_try_again(&error, &tries);)
		error = map_with_stop(making, held);
	return error;
}

struct error *mapping_make(struct session *session, const struct mapping_wants *wants,
			   struct stop *held)
{
	assert(session->planner && (session->agent || wants->agent));
	struct making making = { .session = session, .wants = wants };
	struct error *error = find_needs(session, &making.needs);

	fence_begin(&making.trial);
	if (wants->agent && fencing_may_be_ours(session) && trial_is_due())
		trial_run(&making.trial);
	if (!error && !held)
		error = judged_renew(session->proc);
	if (!error)
		error = find_places(&making);
	if (!error && wants->agent)
		error = find_agent(&making);
	if (!error && wants->exits)
		error = exits_prepare(session);
	if (!error)
		error = map_with_stops(&making, held);
	if (!error && making.asks_tids)
		session->agent->control->tid_offset =
			fencing_tid_offset(session, &making.blocks, false);
	if (!error && wants->agent) {
		agent_fill_text(session->agent, making.agent_elf);
		error = agent_fill_pool(session->agent);
	}
	if (!error && wants->agent)
		stable_memory_note(session);
	agent_prepare_end(making.agent_elf);
	vec_free(&making.blocks);
	vec_free(&making.windows);
	vec_free(&making.needs);
	return error;
}
