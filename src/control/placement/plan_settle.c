/*
 * plan_settle.c - which sites go with removed probes, and with an exchange that is over.
 */
#include <assert.h>

#include "control/base/cleanup.h"
#include "tactic.h"

/* The site that the site goes together with: the host of its slot, or itself. */
static struct site *root_of(struct site *site)
{
	struct site *root = site->slot_host ? site->slot_host : site;

	assert(!root->slot_host); /* L3: it and its dependents go together */
	return root;
}

static void remove_probe(struct site *site, struct probe *probe)
{
	size_t kept = 0;

	for (size_t i = 0; i < site->probes.count; i++) {
		if (site->probes.items[i] != probe)
			site->probes.items[kept++] = site->probes.items[i];
	}
	site->probes.count = kept;
	probe->site = NULL;
}

bool planner_release(struct planner *planner, struct probe *const *probes, size_t count,
		     struct site_list *gone)
{
	size_t kept = 0;

	if (!vec_reserve(gone, planner->sites.count))
		return false;
	for (size_t i = 0; i < count; i++) {
		struct site *site = probes[i]->site;

		remove_probe(site, probes[i]);
		root_of(site)->leaves = true;
	}
	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i], *root = root_of(site);

		if (site->probes.count || root->probes.count)
			root->leaves = false;
	}
	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (root_of(site)->leaves)
			gone->items[gone->count++] = site;
		else
			planner->sites.items[kept++] = site;
	}
	planner->sites.count = kept;
	return true;
}

const struct site_list *planner_superseded(const struct planner *planner)
{
	return &planner->superseded;
}

/* Why the group isn't placed; NULL: it is. */
static const char *group_failure(const struct planner *planner, unsigned group)
{
	for (size_t i = 0; i < planner->sites.count; i++) {
		const struct site *site = planner->sites.items[i];

		if (site->group == group && site->patch.state != PATCH_PLACED)
			return site->patch.error ? error_text(site->patch.error) :
						   "not placed";
	}
	return NULL;
}

/* Hands the old sites of the group over and ends it. */
static bool settle_group(struct planner *planner, unsigned group, struct site_list *gone)
{
	size_t kept = 0;

	if (!vec_reserve(gone, planner->superseded.count))
		return false;
	for (size_t i = 0; i < planner->superseded.count; i++) {
		struct site *site = planner->superseded.items[i];

		if (site->group == group)
			gone->items[gone->count++] = site;
		else
			planner->superseded.items[kept++] = site;
	}
	planner->superseded.count = kept;
	for (size_t i = 0; i < planner->sites.count; i++) {
		struct site *site = planner->sites.items[i];

		if (site->group != group)
			continue;
		site->group = site->patch.group = 0;
		site->hop_of = NULL;
		site->patch.hop.distance = NULL;
	}
	return true;
}

bool planner_settle(struct planner *planner, struct site_list *gone)
{
	bool enough = true;

	while (planner->superseded.count && enough) {
		unsigned group = planner->superseded.items[0]->group;
		const char *failure = group_failure(planner, group);
		_cleanup_error_ struct error *reason =
			/* a copy: the site's error goes with the site */
			failure ? error_new(ERROR_REFUSED, "%s", failure) : NULL;

		enough = failure ? regroup_undo(planner, group, error_text(reason), gone) :
				   settle_group(planner, group, gone);
	}
	return enough;
}
