/*
 * change.c - the sites of tracepoints, while the target runs: switch, remove, put back.
 *
 * Switching is a store to a word that the trampoline jumps through. Removing puts the original
 * bytes back in one stop; the trampoline's memory is garbage then, and is used again only when it
 * is certain that no thread is in it or in the agent (from where it would return to it), in the
 * target and in every process that was forked from it (whose text holds the jump until now, H12).
 * To look for those takes milliseconds: so it is done for many at once.
 *
 * Return stubs lead to the code of their tracepoint: what has calls inside stays until they are out
 * (exits_release.c).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "change.h"
#include "detach.h"
#include "control/exits/exits.h"
#include "info.h"
#include "place.h"
#include "session.h"
#include "control/session/own_probes/traps.h"
#include "control/session/state/switches.h"
#include "control/tracers/dispatch.h"
#include "control/tracers/loading/loading.h"
#include "tracepoints.h"
#include "control/session/own_probes/semaphores.h"

#define GARBAGE_MAX 256 /* sites */
#define COLLECT_TRIES 20
#define IDLE_MS 500
#define PAUSE_MAX_MS 64

struct change {
	size_t garbage_kept; /* of the garbage: sites with calls inside at the last look */
	size_t retired_kept; /* of the retired tracepoints, likewise */
};

bool change_create(struct session *session)
{
	session->change = calloc(1, sizeof(*session->change));
	return session->change != NULL;
}

void change_destroy(struct session *session)
{
	free(session->change);
}

uint64_t session_code_used(const struct session *session)
{
	return session->code ? near_pool_used(session->code) : 0;
}

/* ---- garbage --------------------------------------------------------------------------------- */

/* What no thread may be in: the agent, and the garbage's trampolines and hops. Caller frees. */
static struct patch_range *list_ranges(const struct session *session, size_t *ret_count)
{
	const struct agent *agent = session->agent;
	const struct load_paper *paper = &session->loading->paper;
	struct patch_range *ranges = calloc(3 * session->garbage.count + 3, sizeof(*ranges));
	size_t count = 0;

	if (!ranges)
		return NULL;
	ranges[count++] =
		(struct patch_range){ agent->agent_at, taddr_add(agent->agent_at, DT_AGENT_SIZE) };
	ranges[count++] =
		(struct patch_range){ agent->state_at,
				      taddr_add(agent->state_at, sizeof(struct dt_state)) };
	if (paper->here) /* a gate, which returns to a trampoline */
		ranges[count++] = (struct patch_range){ paper->there,
							taddr_add(paper->there, LOAD_PAPER_SIZE) };
	for (size_t i = 0; i < session->garbage.count; i++) {
		const struct site *site = session->garbage.items[i];

		if (site->in_child)
			continue;
		if (site->piece.size)
			ranges[count++] =
				(struct patch_range){ site->piece.at,
						      taddr_add(site->piece.at, site->piece.size) };
		if (site->hop_piece.size)
			ranges[count++] = (struct patch_range){ site->hop_piece.at,
								taddr_add(site->hop_piece.at,
									  site->hop_piece.size) };
		/* it has run into the trap, and its signal is still to come */
		if (site->way == DIVERT_TRAP)
			ranges[count++] = (struct patch_range){ taddr_add(site->address, 1),
								taddr_add(site->address, 2) };
	}
	*ret_count = count;
	return ranges;
}

static struct error *is_clear(struct session *session, struct proc *proc, bool *ret_clear)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	size_t count = 0;
	_cleanup_free_ struct patch_range *ranges = list_ranges(session, &count);
	struct error *error = ranges ? stop_all(proc, STOP_TIMEOUT_MS, &stop) :
				       error_new(ERROR_FAILED, "out of memory");
	bool found = true;

	if (!error)
		error = patch_find_threads(proc, stop, ranges, count, &found);
	found = found || tracers_is_inside(session, proc);
	if (!error && !found)
		error = exits_release(session, proc);
	*ret_clear = !found;
	return error;
}

static int by_address(const void *a, const void *b)
{
	const struct patch_site *x = a, *y = b;

	return (x->address.v > y->address.v) - (x->address.v < y->address.v);
}

/* Is it what a forked child still has of tracepoints that are there? It records them as they were. */
static bool serves_children(const struct session *session, const struct site *site)
{
	for (size_t i = 0; site->replaced && i < planner_site_count(session->planner); i++) {
		const struct site *now = planner_site(session->planner, i);

		if (now->address.v < site->address.v + site->length &&
		    site->address.v < now->address.v + now->length)
			return true;
	}
	return false;
}

/* Copies of those that the process's text holds: one place may be garbage several times. `all`:
 * those too that serve it. */
static size_t list_held(const struct session *session, struct proc *proc, bool all,
			struct patch_site *copies)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < session->garbage.count; i++) {
		struct site *site = session->garbage.items[i];

		if (!patch_holds(proc, &site->patch))
			continue;
		site->in_child |= !all && serves_children(session, site);
		if (!all && site->in_child)
			continue;
		copies[count] = session->garbage.items[i]->patch;
		copies[count].state = PATCH_PLACED;
		copies[count++].error = NULL;
	}
	qsort(copies, count, sizeof(*copies), by_address);
	for (size_t i = 0; i < count; i++) {
		if (!kept ||
		    copies[kept - 1].address.v + copies[kept - 1].length <= copies[i].address.v)
			copies[kept++] = copies[i];
	}
	return kept;
}

struct error *change_restore(struct session *session, struct proc *proc, bool all, bool *ret_idle)
{
	_cleanup_free_ struct patch_site *copies =
		calloc(session->garbage.count + 1, sizeof(*copies));
	_cleanup_free_ struct patch_site **list = calloc(session->garbage.count + 1, sizeof(*list));
	struct patch_stats stats;
	struct error *error = NULL;

	*ret_idle = true;
	if (!copies || !list)
		return error_new(ERROR_FAILED, "out of memory");
	size_t count = list_held(session, proc, all, copies);
	for (size_t i = 0; i < count; i++)
		list[i] = &copies[i];
	if (count)
		error = patch_remove(proc, list, count, IDLE_MS, ret_idle, &stats);
	for (size_t i = 0; i < count; i++)
		error_free(copies[i].error);
	return error;
}

/* A forked child's text still leads to what is garbage here. */
static struct error *clear_child(struct session *session, pid_t pid, bool *ret_clear)
{
	struct proc *child = NULL;
	bool idle = false;
	struct error *error = proc_open_plain(pid, &child);

	if (!error && session_has_code(session, child)) {
		error = change_restore(session, child, false, &idle);
		*ret_clear = false;
		if (!error && idle)
			error = is_clear(session, child, ret_clear);
	}
	proc_close(child);
	return error;
}

/* Is it certain now that nobody needs the garbage? An error means: no. */
static bool try_collect(struct session *session)
{
	struct tids pids = { 0 };
	bool clear = false;
	struct error *error;

	for (size_t i = 0; i < session->garbage.count; i++)
		session->garbage.items[i]->calls_inside = session->garbage.items[i]->in_child =
			false;
	error = is_clear(session, session->proc, &clear);
	if (!error && clear)
		error = holders_find(session->agent, &pids);
	for (size_t i = 0; i < pids.count && !error && clear; i++) {
		if (pids.items[i] == session->proc->pid)
			continue;
		error = clear_child(session, pids.items[i], &clear);
		if (error && error_kind(error) == ERROR_GONE) {
			error_free(error);
			error = NULL;
		}
	}
	vec_free(&pids);
	clear &= !error;
	error_free(error);
	return clear;
}

/* Nothing records under their ids any more. */
static void free_retired(struct session *session)
{
	info_fold(session);
	for (size_t i = 0; i < session->retired.count; i++)
		tracepoints_free_one(session, session->retired.items[i]);
	session->retired.count = 0;
}

/* Stubs and children have what they keep led on to others (P8). */
static void keep_led_to(struct session *session)
{
	for (size_t i = 0; i < session->garbage.count; i++)
		session->garbage.items[i]->has_redirects = false;
	for (size_t i = 0; i < session->garbage.count; i++) {
		const struct site *site = session->garbage.items[i];
		const struct patch_site *next =
			site->calls_inside || site->in_child ? site->patch.redirect_to : NULL;

		for (; next; next = next->redirect_to)
			((struct site *)((uintptr_t)next - offsetof(struct site, patch)))->has_redirects =
				true;
	}
}

void change_collect(struct session *session)
{
	bool clear = false, in_child = false;
	size_t kept = 0;

	for (int i = 0; i < COLLECT_TRIES && !clear; i++) {
		clear = try_collect(session);
		if (!clear)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	keep_led_to(session);
	for (size_t i = 0; i < session->garbage.count && clear; i++) {
		struct site *site = session->garbage.items[i];

		in_child |= site->in_child;
		if (!site->in_child) { /* no process's text holds it any more */
			site->patch.after = NULL;
			site->patch.waypoint = taddr_of(0);
			traps_forget(session, site);
		}
		if (site->calls_inside || site->in_child || site->has_redirects)
			session->garbage.items[kept++] = site;
		else
			planner_free_site(site, session->code);
	}
	if (!clear)
		return;
	session->garbage.count = session->change->garbage_kept = kept;
	if (!in_child)
		free_retired(session);
	session->change->retired_kept = session->retired.count;
}

/* Would somebody who is still in what was removed come out inside of what the new site changes?
 * `alone`: who leaves a trampoline is led on (P8), and only a trap whose signal is still to come
 * counts. */
static bool is_in_the_way(const struct session *session, const struct patch_site *new, bool alone)
{
	uint64_t end = new->address.v + new->length;

	while (end > new->address.v && new->patched[end - new->address.v - 1] ==
	       new->original[end - new->address.v - 1])
		end--;
	for (size_t i = 0; i < session->garbage.count; i++) {
		const struct site *old = session->garbage.items[i];
		uint64_t out = old->address.v + old->length, trap = old->address.v + 1;
		bool is_led = !old->patch.leads_on || old->patch.redirect_to ||
			      (alone && old->patch.state == PATCH_REMOVED);

		if (old->patch.state == PATCH_FAILED)
			continue;
		if ((!is_led && out > new->address.v && out < end) ||
		    (old->way == DIVERT_TRAP && trap > new->address.v && trap < end))
			return true;
	}
	return false;
}

/* Stubs that were bound to code which another has taken the place of lead into it, past the
 * switches of the new: they are redirected now, not when there is enough garbage. */
void change_redirect_stubs(struct session *session)
{
	for (size_t i = 0; i < session->garbage.count; i++) {
		if (session->garbage.items[i]->replaced && session->garbage.items[i]->has_exit) {
			change_collect(session);
			return;
		}
	}
}

/* A group is placed as a whole, or not at all (P7). */
static void fail_with_group(struct session *session, struct patch_site *site, const char *reason)
{
	unsigned group = site->group;

	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct patch_site *other = &planner_site(session->planner, i)->patch;

		if (other->state != PATCH_PLANNED ||
		    (other != site && (!group || other->group != group)))
			continue;
		other->error = error_new(ERROR_REFUSED, "%s", reason);
		other->state = PATCH_FAILED;
	}
}

/* Is code of ours in no other process? Those that are forked from now on have all of it that there
 * is. */
bool change_is_alone(const struct session *session)
{
	struct tids pids = { 0 };
	_cleanup_error_ struct error *error = holders_find(session->agent, &pids);
	bool alone = !error && !pids.count;

	vec_free(&pids);
	return alone;
}

static bool is_way_clear(const struct session *session)
{
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		const struct patch_site *new = &planner_site(session->planner, i)->patch;

		if (new->state == PATCH_PLANNED && is_in_the_way(session, new, false))
			return false;
	}
	return true;
}

/* The exchanges that need it. */
static void fail_groups(struct session *session)
{
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct patch_site *site = &planner_site(session->planner, i)->patch;

		if (site->state == PATCH_PLANNED && site->group &&
		    planner_redirects(session->planner, site->group))
			fail_with_group(
				session, site,
				"a process that was forked still runs the code of a tracepoint that is too near: remove that first");
	}
}

void change_collect_patiently(struct session *session, unsigned *pause_ms)
{
	change_collect(session);
	nanosleep(&(struct timespec){ .tv_nsec = *pause_ms * 1000000L }, NULL);
	if (*pause_ms < PAUSE_MAX_MS)
		*pause_ms *= 2;
}

void change_clear_way(struct session *session, bool *ret_alone)
{
	uint64_t until = now_ms() + CHANGE_WAY_MS;
	unsigned pause_ms = 1;
	bool leads_on = planner_redirects(session->planner, 0);
	bool alone = (leads_on || !is_way_clear(session)) && change_is_alone(session);

	if (leads_on && !alone)
		fail_groups(session);
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct patch_site *new = &planner_site(session->planner, i)->patch;

		while (new->state == PATCH_PLANNED && is_in_the_way(session, new, alone) &&
		       now_ms() < until)
			change_collect_patiently(session, &pause_ms);
		if (new->state != PATCH_PLANNED || !is_in_the_way(session, new, alone))
			continue;
		fail_with_group(
			session, new,
			"a thread may still be in the code of a tracepoint that was removed there: try again");
	}
	*ret_alone = alone;
}

void change_free(struct session *session)
{
	for (size_t i = 0; i < session->garbage.count; i++)
		planner_free_site(session->garbage.items[i], session->code);
	vec_free(&session->garbage);
}

/* ---- remove ---------------------------------------------------------------------------------- */

static bool is_placed(const struct site_list *sites)
{
	for (size_t i = 0; i < sites->count; i++) {
		if (sites->items[i]->patch.state == PATCH_PLACED)
			return true;
	}
	return false;
}

/* What never was in the target's text is nowhere else. */
static void drop(struct session *session, const struct site_list *gone)
{
	for (size_t i = 0; i < gone->count; i++) {
		place_unnote(session, gone->items[i]);
		traps_forget(session, gone->items[i]);
		planner_free_site(gone->items[i], session->code);
	}
}

/* The original bytes come back, and the sites are garbage. */
static struct error *take_out(struct session *session, const struct site_list *gone)
{
	_cleanup_free_ struct patch_site **patches = calloc(gone->count + 1, sizeof(*patches));
	struct patch_stats stats;
	bool idle;

	if (!patches || !vec_reserve(&session->garbage, gone->count))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < gone->count; i++) {
		patches[i] = &gone->items[i]->patch;
		session->garbage.items[session->garbage.count++] = gone->items[i];
	}
	struct error *error = patch_remove(session->proc, patches, gone->count, 0, &idle, &stats);
	for (size_t i = 0; i < gone->count && !error; i++) {
		if (patches[i]->state != PATCH_PLACED &&
		    !(patches[i]->state == PATCH_REMOVED && patches[i]->error))
			place_unnote(session, gone->items[i]);
	}
	return error;
}

struct error *change_discard(struct session *session, const struct site_list *sites)
{
	if (!vec_reserve(&session->garbage, sites->count))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < sites->count; i++) {
		struct site *site = sites->items[i];

		place_unnote(session, site);
		if (site->patch.state == PATCH_PLANNED)
			planner_free_site(site, session->code); /* nobody ever was in it */
		else
			session->garbage.items[session->garbage.count++] = site;
	}
	return NULL;
}

struct error *change_settle(struct session *session)
{
	struct site_list gone = { 0 };
	struct error *error = planner_settle(session->planner, &gone) ?
				      NULL :
				      error_new(ERROR_FAILED, "out of memory");

	for (size_t i = 0; i < gone.count; i++)
		gone.items[i]->replaced = gone.items[i]->patch.state == PATCH_REMOVED;
	if (!error)
		error = change_discard(session, &gone);
	traps_note_again(session);
	vec_free(&gone);
	return error;
}

struct error *change_release(struct session *session, const struct tracepoint_list *list)
{
	struct site_list gone = { 0 };
	struct error *error = NULL;

	for (size_t i = 0; i < list->count && !error; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (!tracepoint->probe.site)
			continue;
		semaphores_lower(session, tracepoint);
		switches_write_probe(session, &tracepoint->probe, false); /* others may share the site */
		if (!planner_release(session->planner, &tracepoint->probe, &gone))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	if (!error && gone.count && is_placed(&gone))
		error = take_out(session, &gone);
	else if (!error)
		drop(session, &gone);
	vec_free(&gone);
	if (!error && (session->garbage.count > session->change->garbage_kept + GARBAGE_MAX ||
		       session->retired.count > session->change->retired_kept + GARBAGE_MAX))
		change_collect(session);
	return error;
}

/* ---- one by one ------------------------------------------------------------------------------ */

struct error *session_take_out(struct session *session, size_t index)
{
	struct tracepoint_list one = { .items = &session->tracepoints.items[index], .count = 1 };

	return change_release(session, &one);
}

struct error *session_put_back(struct session *session, size_t index)
{
	struct tracepoint *tracepoint = session->tracepoints.items[index];
	struct tracepoint_list one = { .items = &tracepoint, .count = 1 };
	struct probe *probe = &tracepoint->probe;

	if (probe->refusal || tracepoint->waits || probe->site)
		return NULL;
	struct error *error = place_list(session, &one, NULL);
	if (!error)
		return NULL;
	error_free(change_release(session, &one));
	error_free(take_ptr(&probe->refusal));
	return error;
}
