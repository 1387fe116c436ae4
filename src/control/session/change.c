#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "change.h"
#include "control/exits/exits.h"
#include "control/session/own_probes/semaphores.h"
#include "control/session/own_probes/traps.h"
#include "control/session/state/switches.h"
#include "garbage.h"
#include "control/session/memory/site_notes.h"
#include "place.h"
#include "session.h"

uint64_t session_code_used(const struct session *session)
{
	return session->code ? near_pool_used(session->code) : 0;
}

/* ---- the way of new sites -------------------------------------------------------------------- */

/* Behind the last byte that the site changes. */
static uint64_t changed_end(const struct patch_site *site)
{
	size_t length = site->length;

	assert(length <= DT_SITE_BYTES);
	while (length && site->patched[length - 1] == site->original[length - 1])
		length--;
	return site->address.v + length;
}

/* Could a thread in removed code come out inside the bytes that the new site changes? `unshared`:
 * trampolines are redirected (P8), and only a trap whose signal is still to come counts. */
static bool is_in_the_way(const struct session *session, const struct patch_site *new,
			  bool unshared)
{
	uint64_t end = changed_end(new);

	for (size_t i = 0; i < session->garbage.count; i++) {
		const struct site *old = session->garbage.items[i];
		uint64_t out = old->address.v + old->length, trap = old->address.v + 1;
		bool is_redirected = !old->patch.leads_on || old->patch.redirect_to ||
				     (unshared && old->patch.state == PATCH_REMOVED);

		if (old->patch.state == PATCH_FAILED)
			continue;
		if ((!is_redirected && out > new->address.v && out < end) ||
		    (old->way == DIVERT_TRAP && trap > new->address.v && trap < end))
			return true;
	}
	return false;
}

/* Fails the site, and all planned sites of its group: a group is placed whole or not at all
 * (P7). */
static void fail_with_group(struct session *session, struct patch_site *site, const char *reason)
{
	unsigned group = site->group;

	assert(site->state == PATCH_PLANNED);
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct patch_site *other = &planner_site(session->planner, i)->patch;

		if (other->state != PATCH_PLANNED ||
		    (other != site && (!group || other->group != group)))
			continue;
		other->error = error_new(ERROR_REFUSED, "%s", reason);
		other->state = PATCH_FAILED;
	}
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

/* Fails every planned site whose group needs a redirect (P8). */
static void fail_redirecting(struct session *session)
{
	unsigned clear = 0; /* the group that was found to need none */

	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct patch_site *site = &planner_site(session->planner, i)->patch;

		if (site->state != PATCH_PLANNED || !site->group || site->group == clear)
			continue;
		if (!planner_redirects(session->planner, site->group))
			clear = site->group;
		else
			fail_with_group(session, site,
					"a forked process still runs the code of a tracepoint that "
					"is too near (remove that one first)");
	}
}

void change_clear_way(struct session *session, bool *ret_unshared)
{
	uint64_t until = now_ms() + GARBAGE_WAIT_MS;
	unsigned pause_ms = 1;
	bool redirects = planner_redirects(session->planner, 0);
	bool unshared = (redirects || !is_way_clear(session)) && garbage_is_unshared(session);

	if (redirects && !unshared)
		fail_redirecting(session);
	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		struct patch_site *new = &planner_site(session->planner, i)->patch;

		while (new->state == PATCH_PLANNED && is_in_the_way(session, new, unshared) &&
		       now_ms() < until)
			garbage_collect_patiently(session, &pause_ms);
		if (new->state != PATCH_PLANNED || !is_in_the_way(session, new, unshared))
			continue;
		fail_with_group(session, new,
				"a thread may still run the code of a tracepoint that was removed "
				"there (try again)");
	}
	*ret_unshared = unshared;
}

/* ---- exchanged and removed sites ------------------------------------------------------------- */

/* Frees a site that never was in the target's text. Any other is garbage: a thread may have been
 * moved into its trampoline, even if its bytes couldn't be written. */
static void discard(struct session *session, struct site *site)
{
	if (site->patch.state != PATCH_PLANNED) {
		garbage_add(session, site);
		if (!garbage_is_in_text(site))
			site_notes_remove(session, site);
		return;
	}
	site_notes_remove(session, site);
	if (session->agent) /* else nothing is noted yet */
		traps_forget(session, site);
	planner_free_site(site, session->code);
}

void change_discard(struct session *session, const struct site_list *sites)
{
	for (size_t i = 0; i < sites->count; i++)
		discard(session, sites->items[i]);
}

void change_settle(struct session *session)
{
	struct site_list *gone = garbage_room(session);
	bool settled = planner_settle(session->planner, gone);

	assert(settled); /* L5 */
	for (size_t i = 0; i < gone->count; i++)
		gone->items[i]->replaced = gone->items[i]->patch.state == PATCH_REMOVED;
	change_discard(session, gone);
	traps_note_again(session);
}

static void release(struct session *session, struct probe *const *probes, size_t count,
		    struct site_list *gone)
{
	bool released = planner_release(session->planner, probes, count, gone);

	assert(released); /* L5 */
}

static size_t count_leaves(const struct tracepoint_list *list)
{
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++)
		count += list->items[i]->leaves.count;
	return count;
}

/* Takes the probes from the tracepoint; those with a site come to `probes`, or are released. */
static void take_leaves(struct session *session, struct tracepoint *tracepoint,
			struct probe **probes, size_t *count, struct site_list *gone)
{
	/* exits_late_add has made room */
	assert(tracepoint->left.room >= tracepoint->left.count + tracepoint->leaves.count);
	exits_late_switch(session, tracepoint, false);
	for (size_t i = 0; i < tracepoint->leaves.count; i++) {
		struct probe *probe = tracepoint->leaves.items[i];

		if (probe->site && probes)
			probes[(*count)++] = probe;
		else if (probe->site) /* one by one, then */
			release(session, &probe, 1, gone);
		tracepoint->left.items[tracepoint->left.count++] = probe;
	}
	tracepoint->leaves.count = 0;
}

void change_release_leaves(struct session *session, const struct tracepoint_list *list,
			   struct site_list *gone)
{
	size_t room = count_leaves(list), count = 0;
	_cleanup_free_ struct probe **probes = room ? calloc(room, sizeof(*probes)) : NULL;

	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->leaves.count)
			take_leaves(session, list->items[i], probes, &count, gone);
	}
	if (count)
		release(session, probes, count, gone);
}

static struct error *discard_now(struct session *session, const struct site_list *gone)
{
	change_discard(session, gone);
	if (!session->agent || !session->planner)
		return NULL;
	struct error *error = garbage_take_out(session); /* also what a change before couldn't */
	if (!error)
		garbage_collect_if_due(session);
	return error;
}

struct error *change_release(struct session *session, const struct tracepoint_list *list)
{
	struct site_list *gone = garbage_room(session);
	_cleanup_free_ struct probe **probes = calloc(list->count + 1, sizeof(*probes));
	size_t count = 0;

	change_release_leaves(session, list, gone);
	for (size_t i = 0; i < list->count; i++) {
		struct tracepoint *tracepoint = list->items[i];

		if (!tracepoint->probe.site)
			continue;
		semaphores_lower(session, tracepoint);
		/* other probes may share the site, and keep its trampoline */
		switches_write_probe(session, &tracepoint->probe, SWITCH_OFF);
		if (probes)
			probes[count++] = &tracepoint->probe;
		else /* one by one, then */
			release(session, &(struct probe *){ &tracepoint->probe }, 1, gone);
	}
	if (count)
		release(session, probes, count, gone);
	return discard_now(session, gone);
}

struct error *change_release_guards(struct session *session)
{
	struct traps *traps = session->traps;
	struct site_list *gone = garbage_room(session);

	assert(traps->refusal && traps->guarded);
	for (size_t i = 0; i < traps->guards.count; i++) {
		if (traps->guards.items[i]->site)
			release(session, &traps->guards.items[i], 1, gone);
	}
	traps->guarded = false;
	return discard_now(session, gone);
}

/* ---- single tracepoints ---------------------------------------------------------------------- */

struct error *session_take_out(struct session *session, size_t index)
{
	assert(index < session->tracepoints.count);
	struct tracepoint_list one = { .items = &session->tracepoints.items[index], .count = 1 };

	return change_release(session, &one);
}

struct error *session_put_back(struct session *session, size_t index)
{
	assert(index < session->tracepoints.count);
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
