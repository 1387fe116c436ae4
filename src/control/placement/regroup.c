/*
 * regroup.c - new probes among placed sites.
 *
 * An emitted site can't be changed: threads are in its trampoline. So where a new probe needs its
 * bytes, the site is superseded by a new site with a trampoline of its own, which takes over its
 * probes. The sites that share its slots are superseded with it: a group (L4). All probes of a
 * group are decided anew: first with sites at the old places, which can grow; then as if no site
 * were there. If a placed probe gets no site that way, the group is undone.
 *
 * First all new probes that need it are tried together; if that fails, one by one.
 *
 * A thread in an old trampoline leaves it to the instruction after the old site. If a new site
 * changes that instruction, the old trampoline is redirected to the new site's copy (P8). That
 * needs that no forked child runs the old code: so efforts without a redirect are tried first.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "planner.h"

#define SHORT_REACH 130 /* of a short jump, from its own start */

/* How much is decided anew; efforts are tried in order. */
struct effort {
	int64_t distance; /* supersede sites up to so many bytes from the probe */
	bool alike; /* begin with sites at the old places */
	bool redirects; /* old trampolines may be redirected */
};

static const struct effort efforts[] = {
	{ JUMP_LENGTH, true, false },
	{ JUMP_LENGTH, false, false },
	{ 128, true, false }, /* the reach of a short jump: these sites might give out a slot */
	{ 128, false, false },
	{ JUMP_LENGTH, true, true },
	{ JUMP_LENGTH, false, true },
	{ 128, true, true },
	{ 128, false, true },
};

/* ---- superseded sites ------------------------------------------------------------------------ */

/* An emitted site within the distance; NULL: none. */
static struct site *site_in_the_way(const struct planner *planner, taddr at, int64_t distance)
{
	taddr from = taddr_add(at, -distance), to = taddr_add(at, distance);

	while (from.v < to.v) {
		struct site *site = siteset_overlapping(planner, from, to);

		if (!site || site->emitted)
			return site;
		from = taddr_add(site->address, (int64_t)site_claim(site));
	}
	return NULL;
}

static struct site *root_of(struct site *site)
{
	return site->slot_host ? site->slot_host : site;
}

/* Takes the site's probes out, to be decided anew. */
static bool keep_probes(struct site *site)
{
	assert(site->emitted && !site->kept.count); /* L4 */
	if (!vec_reserve(&site->kept, site->probes.count))
		return false;
	for (size_t i = 0; i < site->probes.count; i++) {
		struct probe *probe = site->probes.items[i];

		assert(probe->site == site);
		site->kept.items[site->kept.count++] = (struct site_kept){ probe, probe->event };
		probe->site = NULL;
	}
	site->probes.count = 0;
	return true;
}

/* Moves the site and the sites that use its slots into the group being decided. */
static bool supersede(struct planner *planner, struct site *root)
{
	bool enough = vec_reserve(&planner->superseded, root->slot_count + 1);
	/* those jump to a slot by a short jump */
	size_t i = siteset_index(planner, root->address.v - SHORT_REACH), kept = i;
	size_t end = siteset_index(planner, root->address.v + root->length + SHORT_REACH);

	assert(planner->group && root->emitted && !root->slot_host); /* L4 */
	for (; i < end; i++) {
		struct site *site = planner->sites.items[i];

		if (enough && root_of(site) == root && keep_probes(site)) {
			site->group = site->patch.group = planner->group;
			assert(planner->superseded.count < planner->superseded.room);
			planner->superseded.items[planner->superseded.count++] = site;
			continue;
		}
		enough &= root_of(site) != root;
		planner->sites.items[kept++] = site;
	}
	siteset_close_gap(planner, kept, end);
	return enough;
}

/* The indices of the sites among which all new ones of the group are (L4). */
static void group_range(const struct planner *planner, unsigned group, size_t *ret_start,
			size_t *ret_end)
{
	bool is_known = group && group == planner->group;

	*ret_start = is_known ? siteset_index(planner, planner->span.low) : 0;
	*ret_end = is_known ? siteset_index(planner, planner->span.high + 1) : planner->sites.count;
	if (*ret_end < *ret_start) /* none yet */
		*ret_end = *ret_start;
}

/* The index of the group's first old site, or of one before it. */
static size_t first_old(const struct planner *planner, unsigned group)
{
	return group && group == planner->group ? planner->first_superseded : 0;
}

/* ---- undo ------------------------------------------------------------------------------------ */

static void refuse(struct probe *probe, const char *reason)
{
	probe->site = NULL;
	error_free(probe->refusal);
	probe->refusal = error_new(ERROR_REFUSED, "%s", reason);
}

static bool drop_new(struct planner *planner, unsigned group, const char *reason,
		     struct site_list *gone)
{
	size_t start, end, kept;

	if (gone && !vec_reserve(gone, planner->sites.count))
		return false;
	group_range(planner, group, &start, &end);
	kept = start;
	for (size_t i = start; i < end; i++) {
		struct site *site = planner->sites.items[i];

		if (site->group != group) {
			planner->sites.items[kept++] = site;
			continue;
		}
		for (size_t j = 0; j < site->probes.count; j++)
			refuse(site->probes.items[j], reason);
		site->probes.count = 0;
		if (site->hop_of)
			site_take_hop(take_ptr(&site->hop_of), site);
		if (gone)
			gone->items[gone->count++] = site;
		else
			site_free(site);
	}
	siteset_close_gap(planner, kept, end);
	return true;
}

static void reinstate(struct planner *planner, struct site *site)
{
	assert(site->emitted && !site->probes.count); /* L2 */
	assert(site->kept.count <= site->probes.room); /* L5 */
	siteset_put(planner, site);
	for (size_t i = 0; i < site->kept.count; i++) {
		struct probe *probe = site->kept.items[i].probe;

		site->probes.items[site->probes.count++] = probe;
		probe->event = site->kept.items[i].event;
		probe->site = site;
		error_free(take_ptr(&probe->refusal));
	}
	site->kept.count = 0;
	site->group = site->patch.group = 0;
}

bool regroup_undo(struct planner *planner, unsigned group, const char *reason,
		  struct site_list *gone)
{
	size_t start = first_old(planner, group), kept = start;

	if (!drop_new(planner, group, reason, gone))
		return false;
	for (size_t i = start; i < planner->superseded.count; i++) {
		struct site *site = planner->superseded.items[i];

		if (site->group == group)
			reinstate(planner, site);
		else
			planner->superseded.items[kept++] = site;
	}
	planner->superseded.count = kept;
	return true;
}

/* ---- decisions ------------------------------------------------------------------------------- */

struct probe_list {
	struct probe **items;
	size_t count, room;
};

/* Supersedes the sites in the way of these probes, and adds the sites' probes to the list. */
static bool gather(struct planner *planner, const struct effort *effort, struct probe_list *list)
{
	size_t count = list->count, first = planner->superseded.count;

	for (size_t i = 0; i < count; i++) {
		taddr at = list->items[i]->place.address;
		struct site *site;

		while ((site = site_in_the_way(planner, at, effort->distance)) != NULL) {
			if (!supersede(planner, root_of(site)))
				return false;
		}
	}
	for (size_t i = first; i < planner->superseded.count; i++) {
		const struct site *site = planner->superseded.items[i];

		for (size_t j = 0; j < site->kept.count; j++) {
			if (!vec_push(list, site->kept.items[j].probe))
				return false;
		}
	}
	return true;
}

/* Makes a site at the place of the old one, which can grow. */
static bool make_alike(struct planner *planner, const struct site *old)
{
	struct site *site = calloc(1, sizeof(*site));

	if (!site)
		return false;
	site->module = old->module;
	site->address = old->address;
	site->tactic = old->tactic;
	site->way = old->way;
	site->group = planner->group;
	site->insn_count = old->insn_count;
	site->length = old->length;
	memcpy(site->lengths, old->lengths, sizeof(site->lengths));
	if (siteset_insert(planner, site))
		return true;
	site_free(site);
	return false;
}

static bool make_all_alike(struct planner *planner)
{
	bool enough = true;

	for (size_t i = planner->first_superseded; i < planner->superseded.count && enough; i++) {
		const struct site *old = planner->superseded.items[i];

		if (old->group == planner->group && old->way == DIVERT_JUMP)
			enough = make_alike(planner, old);
	}
	return enough;
}

/* Drops the sites of the group that no probe and no slot needs. */
static void drop_useless(struct planner *planner)
{
	size_t start, end, kept;

	group_range(planner, planner->group, &start, &end);
	kept = start;
	for (size_t i = start; i < end; i++) {
		struct site *site = planner->sites.items[i];

		if (site->group == planner->group && !site->probes.count && !site->slot_count)
			site_free(site);
		else
			planner->sites.items[kept++] = site;
	}
	siteset_close_gap(planner, kept, end);
}

/* The number of leading bytes that a site changes: its jump and its slots. */
static uint64_t changed_bytes(const struct site *site)
{
	uint64_t end = site->way == DIVERT_SHORT ?
			       SHORT_JUMP_LENGTH :
			       site_slot(site, site->slot_count).v - site->address.v;

	return end < site->length ? end : site->length;
}

/* Does an old trampoline of the group (0: of any) lead into the changed bytes of a new site? */
static bool leads_inside(const struct planner *planner, unsigned group)
{
	for (size_t i = first_old(planner, group); i < planner->superseded.count; i++) {
		const struct site *site = planner->superseded.items[i];
		taddr end = taddr_add(site->address, (int64_t)site->length);
		const struct site *other = siteset_before(planner, taddr_add(end, -1));

		if ((!group || site->group == group) && site->patch.leads_on && other &&
		    other->group == site->group && end.v < other->address.v + changed_bytes(other))
			return true;
	}
	return false;
}

static bool shares_hop(const struct planner *planner, unsigned group)
{
	for (size_t i = 0; i < planner->sites.count; i++) {
		if (planner->sites.items[i]->group == group && planner->sites.items[i]->hop_of)
			return true;
	}
	return false;
}

/* A group may have as many old sites as the planner has: each group is looked at once. */
bool planner_redirects(const struct planner *planner, unsigned group)
{
	unsigned last = 0;

	if (leads_inside(planner, group))
		return true;
	for (size_t i = 0; i < planner->superseded.count; i++) {
		unsigned other = planner->superseded.items[i]->group;

		if ((!group || other == group) && other != last && shares_hop(planner, other))
			return true;
		last = other;
	}
	return false;
}

static const char *why_not(const struct planner *planner, const struct probe_list *list,
			   const struct effort *effort)
{
	for (size_t i = 0; i < list->count; i++) {
		if (!list->items[i]->site)
			return error_text(list->items[i]->refusal);
	}
	return !effort->redirects && leads_inside(planner, planner->group) ?
		       "too close to a tracepoint that is already placed (remove that one first)" :
		       NULL;
}

/* *ret_done: all probes have sites now; otherwise the planner is as before. */
static struct error *try_group(struct planner *planner, struct probe *const *probes, size_t count,
			       const struct effort *effort, bool *ret_done)
{
	struct probe_list list = { 0 };
	struct error *error = NULL;
	char reason[256] = "";
	bool enough = true;

	assert(!planner->group); /* L4 */
	planner->group = ++planner->last_group;
	planner->first_superseded = planner->superseded.count;
	planner->span.low = UINT64_MAX;
	planner->span.high = 0;
	for (size_t i = 0; i < count && enough; i++)
		enough = vec_push(&list, probes[i]);
	enough = enough && gather(planner, effort, &list) &&
		 (!effort->alike || make_all_alike(planner));
	if (enough)
		error = plan_all(planner, list.items, list.count);
	drop_useless(planner);
	const char *why = enough && !error ? why_not(planner, &list, effort) : "out of memory";
	if (why) {
		snprintf(reason, sizeof(reason), "%s", why);
		regroup_undo(planner, planner->group, reason, NULL);
		for (size_t i = 0; i < count; i++)
			refuse(probes[i], reason);
	}
	planner->group = 0;
	vec_free(&list);
	*ret_done = !why;
	return error || enough ? error : error_new(ERROR_FAILED, "out of memory");
}

void planner_ask_redirects(struct planner *planner, planner_may_redirect_fn may_redirect,
			   void *context)
{
	planner->may_redirect = may_redirect;
	planner->may_redirect_context = context;
}

static bool may_redirect(struct planner *planner)
{
	if (planner->redirects == REDIRECTS_UNKNOWN)
		planner->redirects = !planner->may_redirect ||
						     planner->may_redirect(
							     planner->may_redirect_context) ?
					     REDIRECTS_POSSIBLE :
					     REDIRECTS_IMPOSSIBLE;
	return planner->redirects == REDIRECTS_POSSIBLE;
}

static struct error *try_together(struct planner *planner, struct probe *const *probes,
				  size_t count, bool *ret_done)
{
	struct error *error = NULL;

	*ret_done = false;
	for (size_t i = 0; i < sizeof(efforts) / sizeof(efforts[0]) && !error && !*ret_done; i++) {
		if (efforts[i].redirects && planner->avoids_traps && !may_redirect(planner))
			break; /* (L6) */
		error = try_group(planner, probes, count, &efforts[i], ret_done);
	}
	return error;
}

struct error *regroup_decide(struct planner *planner, struct probe **probes, size_t count)
{
	struct probe_list list = { 0 };
	struct error *error = NULL;
	bool done = true;

	for (size_t i = 0; i < count && !error; i++) {
		if (probes[i]->refusal &&
		    site_in_the_way(planner, probes[i]->place.address, efforts[2].distance) &&
		    !vec_push(&list, probes[i]))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	if (!error && list.count)
		error = try_together(planner, list.items, list.count, &done);
	for (size_t i = 0; i < list.count && list.count > 1 && !done && !error; i++) {
		bool alone;

		error = try_together(planner, &list.items[i], 1, &alone);
	}
	vec_free(&list);
	return error;
}
