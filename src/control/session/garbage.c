#include "garbage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/exits/exits.h"
#include "control/proc/judged.h"
#include "control/session/own_probes/traps.h"
#include "control/tracers/dispatch.h"
#include "control/tracers/loading/loading.h"
#include "info.h"
#include "control/session/memory/site_notes.h"
#include "session.h"
#include "tracepoints.h"

#define GARBAGE_MAX 256 /* sites */
#define COLLECT_TRIES 20
#define IDLE_MS 500
#define PAUSE_MAX_MS 64
#define REDIRECT_NS 1000000ULL
#define REDIRECT_MAX_NS 1000000000ULL

struct collection {
	struct site_list settled; /* garbage_reserve: room for sites that leave the planner */
	size_t garbage_kept; /* sites that the last collection had to keep */
	size_t retired_kept; /* retired tracepoints, likewise */
	bool stubs_lead_back; /* garbage_redirect_stubs has to try again */
	uint64_t next_redirect, redirect_pause; /* ns; the pause doubles */
};

bool garbage_create(struct session *session)
{
	session->collection = calloc(1, sizeof(*session->collection));
	return session->collection != NULL;
}

void garbage_destroy(struct session *session)
{
	if (session->collection)
		vec_free(&session->collection->settled);
	free(session->collection);
}

void garbage_free(struct session *session)
{
	for (size_t i = 0; i < session->garbage.count; i++)
		planner_free_site(session->garbage.items[i], session->code);
	vec_free(&session->garbage);
}

static struct site *site_of(const struct patch_site *patch)
{
	return (struct site *)((uintptr_t)patch - offsetof(struct site, patch));
}

/* For asserts: a site is in the planner or garbage. */
static bool is_planned(const struct session *session, const struct site *site)
{
	size_t count = planner_site_count(session->planner);
	size_t first = sorted_count(
		count, i, planner_site(session->planner, i)->address.v < site->address.v);

	return first < count && planner_site(session->planner, first) == site;
}

void garbage_expect(struct session *session)
{
	planner_keep_room(session->planner, &session->collection->settled);
	planner_keep_room(session->planner, &session->garbage);
}

struct site_list *garbage_room(struct session *session)
{
	session->collection->settled.count = 0;
	return &session->collection->settled;
}

void garbage_add(struct session *session, struct site *site)
{
	assert(!is_planned(session, site));
	assert(session->garbage.count < session->garbage.room); /* L5 */
	session->garbage.items[session->garbage.count++] = site;
}

/* ---- text ------------------------------------------------------------------------------------ */

bool garbage_is_in_text(const struct site *site)
{
	return site->patch.state == PATCH_PLACED ||
	       (site->patch.state == PATCH_REMOVED && site->patch.error);
}

static bool is_any_placed(const struct session *session)
{
	for (size_t i = 0; i < session->garbage.count; i++) {
		if (session->garbage.items[i]->patch.state == PATCH_PLACED)
			return true;
	}
	return false;
}

struct error *garbage_take_out(struct session *session)
{
	if (!is_any_placed(session))
		return NULL;
	_cleanup_free_ struct patch_site **patches =
		calloc(session->garbage.count + 1, sizeof(*patches));
	struct patch_stats stats;
	size_t count = 0;
	bool idle;

	if (!patches)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < session->garbage.count; i++) {
		if (session->garbage.items[i]->patch.state == PATCH_PLACED)
			patches[count++] = &session->garbage.items[i]->patch;
	}
	struct error *error =
		count ? patch_remove(session->proc, patches, count, 0, NULL, &idle, &stats) : NULL;
	for (size_t i = 0; i < count; i++) {
		if (!garbage_is_in_text(site_of(patches[i])))
			site_notes_remove(session, site_of(patches[i]));
	}
	return error;
}

/* ---- threads in it --------------------------------------------------------------------------- */

static struct patch_range range_at(taddr start, uint64_t size)
{
	return (struct patch_range){ .start = start, .end = taddr_add(start, (int64_t)size) };
}

/* The site's code that a thread may be in. Returns how many ranges, at most 3. */
static size_t list_site_ranges(const struct site *site, struct patch_range *ranges)
{
	size_t count = 0;

	if (site->piece.size)
		ranges[count++] = range_at(site->piece.at, site->piece.size);
	if (site->hop_piece.size)
		ranges[count++] = range_at(site->hop_piece.at, site->hop_piece.size);
	/* a thread has run into the trap, and its signal is still to come */
	if (site->way == DIVERT_TRAP)
		ranges[count++] = range_at(taddr_add(site->address, 1), 1);
	return count;
}

/* Memory that no thread may be in, or return to: the agent, and the garbage. Caller frees. */
static struct patch_range *list_ranges(const struct session *session, size_t *ret_count)
{
	const struct agent *agent = session->agent;
	const struct load_paper *paper = &session->loading->paper;
	size_t shared = near_pool_shared_count(session->code);
	size_t room = 3 * session->garbage.count + shared + 3, count = 0;
	struct patch_range *ranges = calloc(room, sizeof(*ranges));

	if (!ranges)
		return NULL;
	ranges[count++] = range_at(agent->agent_at, DT_AGENT_SIZE);
	ranges[count++] = range_at(agent->state_at, sizeof(struct dt_state));
	if (paper->here) /* a gate, which returns to a trampoline */
		ranges[count++] = range_at(paper->there, LOAD_PAPER_SIZE);
	for (size_t i = 0; i < shared; i++) {
		const struct near_piece *piece = &near_pool_shared(session->code, i)->piece;

		ranges[count] = range_at(piece->at, piece->size);
		ranges[count++].is_called = true;
	}
	for (size_t i = 0; i < session->garbage.count; i++) {
		if (!session->garbage.items[i]->in_child)
			count += list_site_ranges(session->garbage.items[i], ranges + count);
	}
	assert(count <= room);
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

/* ---- forked children ------------------------------------------------------------------------- */

bool garbage_is_unshared(const struct session *session)
{
	struct tids pids = { 0 };
	_cleanup_error_ struct error *error = holders_find(session->agent, &pids);
	bool unshared = !error && !pids.count;

	vec_free(&pids);
	return unshared;
}

static int by_address(const void *a, const void *b)
{
	const struct patch_site *x = a, *y = b;

	return (x->address.v > y->address.v) - (x->address.v < y->address.v);
}

/* Does a forked child still record existing tracepoints with this replaced site? */
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

/* Copies the sites that the process's text holds, sorted. One place may be garbage several times,
 * and is copied once. `all`: also sites that serve the process. */
static size_t list_held(const struct session *session, struct proc *proc, const struct maps *maps,
			bool all, struct patch_site *copies)
{
	size_t count = 0, kept = 0;

	for (size_t i = 0; i < session->garbage.count; i++) {
		struct site *site = session->garbage.items[i];

		if (!patch_may_hold(proc, maps, &site->patch))
			continue;
		site->in_child |= !all && serves_children(session, site);
		if (!all && site->in_child)
			continue;
		copies[count] = site->patch;
		copies[count].state = PATCH_PLACED;
		copies[count++].error = NULL;
	}
	qsort(copies, count, sizeof(*copies), by_address);
	for (size_t i = 0; i < count; i++) {
		if (!kept ||
		    copies[kept - 1].address.v + copies[kept - 1].length <= copies[i].address.v)
			copies[kept++] = copies[i];
	}
	assert(kept <= count && count <= session->garbage.count);
	return kept;
}

struct error *garbage_restore(struct session *session, struct proc *proc, bool all, bool *ret_idle)
{
	_cleanup_free_ struct patch_site *copies =
		calloc(session->garbage.count + 1, sizeof(*copies));
	_cleanup_free_ struct patch_site **list = calloc(session->garbage.count + 1, sizeof(*list));
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct patch_stats stats;

	*ret_idle = true;
	if (!session->garbage.count)
		return NULL;
	if (!copies || !list)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = maps_read(proc, &maps);
	if (error)
		return error;
	size_t count = list_held(session, proc, &maps, all, copies);
	for (size_t i = 0; i < count; i++)
		list[i] = &copies[i];
	if (count)
		error = patch_remove(proc, list, count, IDLE_MS, NULL, ret_idle, &stats);
	for (size_t i = 0; i < count; i++)
		error_free(copies[i].error);
	return error;
}

/* Takes the garbage out of a child's text. *ret_clear: no thread of the child is in it. */
static struct error *clear_child(struct session *session, pid_t pid, bool *ret_clear)
{
	struct proc *child = NULL;
	bool idle = false;
	struct error *error = proc_open_plain(pid, &child);

	if (!error) {
		proc_take_after(child, session->proc);
		error = judged_renew(child);
	}
	if (!error && session_may_have_code(session, child)) {
		error = garbage_restore(session, child, false, &idle);
		*ret_clear = false;
		if (!error && idle)
			error = is_clear(session, child, ret_clear);
	}
	proc_close(child);
	return error;
}

/* ---- collection ------------------------------------------------------------------------------ */

/* Can nothing of the garbage run any more, in no process? An error means: it may. */
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

/* Frees the retired tracepoints: nothing records under their ids any more. */
static void free_retired(struct session *session)
{
	info_fold(session);
	for (size_t i = 0; i < session->retired.count; i++)
		tracepoints_free_one(session, session->retired.items[i]);
	session->retired.count = 0;
}

/* Marks the sites to which trampolines are redirected that return stubs and children keep (P8). */
static void mark_redirects(struct session *session)
{
	for (size_t i = 0; i < session->garbage.count; i++)
		session->garbage.items[i]->has_redirects = false;
	for (size_t i = 0; i < session->garbage.count; i++) {
		const struct site *site = session->garbage.items[i];
		const struct patch_site *next =
			site->calls_inside || site->in_child ? site->patch.redirect_to : NULL;

		for (; next; next = next->redirect_to) {
			assert(next != &site->patch); /* P8: redirects lead to newer sites */
			site_of(next)->has_redirects = true;
		}
	}
}

/* Frees the sites that nothing leads to. True: some stay because a child uses them. */
static bool free_sites(struct session *session)
{
	bool in_child = false;
	size_t kept = 0;

	for (size_t i = 0; i < session->garbage.count; i++) {
		struct site *site = session->garbage.items[i];

		in_child |= site->in_child;
		if (garbage_is_in_text(site)) { /* H32 */
			session->garbage.items[kept++] = site;
			continue;
		}
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
	session->garbage.count = session->collection->garbage_kept = kept;
	return in_child;
}

/* True: nothing of the garbage runs, and no return stub leads to it. */
static bool collect(struct session *session)
{
	bool clear = false;

	assert(session->agent && session->planner);
	error_free(garbage_take_out(session)); /* what isn't out then stays */
	for (int i = 0; i < COLLECT_TRIES && !clear; i++) {
		clear = try_collect(session);
		if (!clear)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	mark_redirects(session);
	if (!clear)
		return false;
	if (!free_sites(session))
		free_retired(session);
	session->collection->retired_kept = session->retired.count;
	return true;
}

void garbage_collect(struct session *session)
{
	collect(session);
}

void garbage_collect_if_due(struct session *session)
{
	if (session->garbage.count > session->collection->garbage_kept + GARBAGE_MAX ||
	    session->retired.count > session->collection->retired_kept + GARBAGE_MAX)
		garbage_collect(session);
}

void garbage_collect_patiently(struct session *session, unsigned *pause_ms)
{
	assert(*pause_ms && *pause_ms <= PAUSE_MAX_MS);
	garbage_collect(session);
	nanosleep(&(struct timespec){ .tv_nsec = *pause_ms * 1000000L }, NULL);
	if (*pause_ms < PAUSE_MAX_MS)
		*pause_ms *= 2;
}

void garbage_redirect_stubs(struct session *session)
{
	struct collection *collection = session->collection;

	collection->stubs_lead_back = false;
	for (size_t i = 0; i < session->garbage.count; i++)
		collection->stubs_lead_back |= session->garbage.items[i]->replaced &&
					       session->garbage.items[i]->has_exit;
	if (collection->stubs_lead_back)
		collection->stubs_lead_back = !collect(session);
	if (!collection->stubs_lead_back)
		collection->redirect_pause = 0;
	collection->next_redirect = now_ns() + collection->redirect_pause;
	collection->redirect_pause = collection->redirect_pause < REDIRECT_MAX_NS ?
					     2 * collection->redirect_pause + REDIRECT_NS :
					     REDIRECT_MAX_NS;
}

void garbage_step(struct session *session, uint64_t now_ns)
{
	if (session->collection->stubs_lead_back && now_ns >= session->collection->next_redirect &&
	    !session_ended(session))
		garbage_redirect_stubs(session);
}
