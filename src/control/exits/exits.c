/*
 * exits.c - memory for function exits.
 *
 *	returns		struct dt_returns, private, anywhere
 *	window		of the code memfd, within reach of the returns:
 *			EXIT_CODE_ROOM bytes of code, the unwind table, from the second page on
 *			the stubs
 *
 * The controller writes stubs as they are needed: only pages that hold stubs take memory.
 */
#include "exits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/remote/private_memory.h"
#include "control/base/cleanup.h"
#include "control/session/state/session_state.h"

#define STUBS_AT DT_PAGE
#define GROW_NS 5000000ULL
#define WINDOW_PAGES (1 + (uint64_t)DT_STUBS_MAX * DT_STUB_SIZE / DT_PAGE)

static const struct private_memory memory = {
	.size = DT_ROUND_UP(sizeof(struct dt_returns), DT_PAGE),
	.mark = offsetof(struct dt_returns, mark),
	.is_large = true,
	.what = "memory for function exits",
};

bool exits_wanted(const struct tracepoint_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct probe *probe = &list->items[i]->probe;

		if (probe->site && probe->event.exit)
			return true;
	}
	return false;
}

static struct error *find_window(const struct maps *maps, taddr returns, taddr *ret_at)
{
	return near_find_gap(maps, returns, taddr_add(returns, sizeof(struct dt_returns)),
			     WINDOW_PAGES * DT_PAGE, ret_at);
}

/* Fills in the returns, and then tells the agent's code in that process of them. */
static struct error *fill_returns(const struct session *session, struct proc *proc, taddr at)
{
	uint32_t first[] = { 1, 0, 0, (uint32_t)proc->inner_pid };

	_Static_assert(offsetof(struct dt_returns, pid) - offsetof(struct dt_returns, used) == 12,
		       "first");
	struct error *error = mem_write(proc, taddr_add(at, offsetof(struct dt_returns, used)),
					first, sizeof(first));
	if (error)
		return error;
	return mem_write(proc,
			 taddr_add(session->agent->state_at, offsetof(struct dt_state, returns)),
			 &at.v, sizeof(at.v));
}

bool exits_find_places(struct maps *maps, taddr near, taddr *ret_returns,
		       struct code_window *ret_window)
{
	uint64_t size = memory.size + 2 * DT_PAGE; /* as near_find_lone */
	taddr gap, window;
	_cleanup_error_ struct error *full = near_find_gap(maps, near, near, size, &gap);

	if (full || !maps_claim(maps, gap, size))
		return false;
	_cleanup_error_ struct error *too_far = find_window(maps, taddr_add(gap, DT_PAGE), &window);
	if (too_far || !maps_claim(maps, window, WINDOW_PAGES * DT_PAGE))
		return false;
	*ret_returns = taddr_add(gap, DT_PAGE);
	*ret_window = (struct code_window){ .at = window, .pages = WINDOW_PAGES };
	return true;
}

void exits_ahead(struct ahead *list, taddr at)
{
	private_memory_ahead(list, &memory, at);
}

static struct error *map_returns_at(struct session *session, struct stop *stop, taddr at)
{
	struct dt_control *control = session->agent->control;

	control->returns = at.v; /* before mmap: a controller that takes over must find it */
	struct error *error = private_memory_map(stop, &memory, at);
	if (error)
		control->returns = 0;
	else
		session->exits->returns = at;
	return error;
}

static struct error *map_returns(struct session *session, struct stop *stop)
{
	taddr at = taddr_of(session->agent->control->returns);
	struct error *error = at.v ? map_returns_at(session, stop, at) : NULL;

	if (at.v && (!error || error_kind(error) == ERROR_GONE))
		return error;
	error_free(error);
	error = near_find_lone(session->proc, session->agent->control_at, memory.size, &at);
	return error ? error : map_returns_at(session, stop, at);
}

struct error *exits_map_child(struct session *session, struct proc *child, struct stop *stop)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	taddr at = session->exits->returns;
	struct error *error = at.v ? maps_read(child, &maps) : NULL;

	if (error || !at.v || private_memory_is_in(child, &maps, &memory, at))
		return error; /* mapped before the fork, which copied it */
	if (session->exits->unwinder_count) /* the child's copy knows no stubs */
		return error_new(ERROR_REFUSED, "its unwinder can't learn of return stubs");
	error = private_memory_map(stop, &memory, at);
	return error ? error : fill_returns(session, child, at);
}

static struct error *map_window(struct session *session, struct stop *stop)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct exits *exits = session->exits;
	taddr at;
	struct error *error = maps_read(session->proc, &maps);

	if (!error)
		error = find_window(&maps, exits->returns, &at);
	if (!error)
		error = agent_map_window(stop, session->agent, at, WINDOW_PAGES, &exits->offset);
	if (!error)
		exits->window = at;
	return error;
}

struct error *exits_prepare(struct session *session)
{
	struct exits *exits = session->exits;

	if (!exits->unwound)
		exits->unwound = calloc(DT_EVENTS_MAX, sizeof(*exits->unwound));
	if (!exits->inside)
		exits->inside = calloc(DT_EVENTS_MAX, sizeof(*exits->inside));
	return exits->unwound && exits->inside ? NULL : error_new(ERROR_FAILED, "out of memory");
}

/* A try that failed may have mapped some of it. */
struct error *exits_map(struct session *session, struct stop *stop,
			const struct code_window *window)
{
	struct exits *exits = session->exits;
	taddr wanted = taddr_of(session->agent->control->returns);
	struct error *error = exits->returns.v ? NULL : map_returns(session, stop);

	assert(!exits->ready && exits->unwound && exits->inside);
	if (!error)
		error = fill_returns(session, session->proc, exits->returns);
	/* the window was chosen to be within reach of these */
	if (!error && !exits->window.v && window && window->offset &&
	    taddr_equal(exits->returns, wanted)) {
		exits->window = window->at;
		exits->offset = window->offset;
	}
	if (!error && !exits->window.v)
		error = map_window(session, stop);
	return error;
}

static struct error *write_stubs(struct session *session, const struct tramp_env *env,
				 uint32_t count)
{
	struct dt_control *control = session->agent->control;
	uint8_t *window = (uint8_t *)control + session->exits->offset;
	uint32_t from = control->stub_count;

	/* R1: the stubs that are there may be bound; they stay as they are. */
	assert(from <= count && count <= DT_STUBS_MAX); /* R1 */
	if (!exit_emit_stubs(env, from, count, window + STUBS_AT + (uint64_t)from * DT_STUB_SIZE))
		return error_new(ERROR_FAILED,
				 "function exits: return stubs are out of reach of their slots");
	__atomic_store_n(&control->stub_count, count,
			 __ATOMIC_RELEASE); /* pairs with retslot_fresh */
	return NULL;
}

static void fill_env(const struct session *session, struct tramp_env *env)
{
	env->returns = session->exits->returns;
	env->stubs = taddr_add(session->exits->window, STUBS_AT);
	env->exit = session->exits->window;
	env->ns_multiplier =
		(uint64_t)(1e9 * 4294967296.0 / (double)session->clock.frequency + 0.5);
}

/* Enough for one stub per type of event: a program takes stubs faster than exits_grow writes. */
static uint32_t first_count(const struct session *session)
{
	uint32_t count = DT_STUBS_FIRST;

	while (count < session->types->count && count < DT_STUBS_MAX)
		count *= 2;
	assert(count <= DT_STUBS_MAX);
	return count;
}

struct error *exits_write(struct session *session, struct tramp_env *env)
{
	struct dt_control *control = session->agent->control;
	struct exits *exits = session->exits;
	uint8_t *window = (uint8_t *)control + exits->offset;
	size_t size;

	assert(exits->returns.v && exits->window.v);
	fill_env(session, env);
	exits->table_at = EXIT_CODE_ROOM;
	if (!exit_emit_code(env, window, EXIT_CODE_ROOM, env->exit, &size) ||
	    !exit_frame_table(env, window + exits->table_at, EXIT_FRAME_ROOM, &size,
			      &exits->fde_at))
		return error_new(ERROR_FAILED, "function exits: their code doesn't fit its room");
	control->stub_fde = exits->window.v + exits->table_at + exits->fde_at;
	control->stubs = env->stubs.v;
	return write_stubs(session, env, first_count(session));
}

void exits_grow(struct session *session, uint64_t now_ns)
{
	const struct dt_pool *pool = session->agent->pool;
	uint32_t count = session->agent->control->stub_count, used = 0;
	struct tramp_env env = { 0 };
	uint64_t missed = 0;

	if (!session->exits->ready || count >= DT_STUBS_MAX ||
	    now_ns < session->exits->next_grow)
		return;
	session->exits->next_grow = now_ns + GROW_NS;
	_cleanup_error_ struct error *reading =
		mem_read(session->proc,
			 taddr_add(session->exits->returns, offsetof(struct dt_returns, used)),
			 &used, sizeof(used));
	for (size_t i = 0; i < session->types->count; i++)
		missed += pool->tallies[i].missed; /* also by forked children */
	missed -= pool->foreign;
	if ((reading || used < count / 2) && missed == session->exits->missed)
		return;
	session->exits->missed = missed;
	fill_env(session, &env);
	_cleanup_error_ struct error *ignored = write_stubs(session, &env, count * 2);
}

/* (R12) */
struct patch_range exits_range(const struct session *session)
{
	taddr start = session->exits->window;

	if (!session->exits->returns.v || !start.v)
		return (struct patch_range){ 0 };
	return (struct patch_range){ .start = start,
				     .end = taddr_add(start, (int64_t)(WINDOW_PAGES * DT_PAGE)) };
}

bool exits_are_mapped(struct proc *proc, const struct maps *maps, taddr returns)
{
	return private_memory_is_in(proc, maps, &memory, returns);
}

struct error *exits_list_memory(const struct session *session, struct proc *proc,
				struct remote_map_list *list)
{
	/* a child that was forked before may have its own memory there */
	return private_memory_list(proc, &memory, session->exits->returns, list);
}

bool exits_create(struct session *session)
{
	assert(!session->exits);
	session->exits = calloc(1, sizeof(*session->exits));
	return session->exits != NULL;
}

void exits_free(struct session *session)
{
	if (!session->exits)
		return;
	exits_free_callers(session->exits);
	free(session->exits->unwound);
	free(session->exits->inside);
	free(session->exits);
}
