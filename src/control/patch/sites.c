#include "sites.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "shared/sorted.h"

#define SHORT_JUMP 0xeb
#define SHORT_JUMP_SIZE 2

static int by_address(const void *a, const void *b)
{
	const struct patch_site *x = *(struct patch_site *const *)a,
				*y = *(struct patch_site *const *)b;

	return (x->address.v > y->address.v) - (x->address.v < y->address.v);
}

void sites_sort(struct patch_site **items, size_t count)
{
	qsort(items, count, sizeof(*items), by_address);
}

struct error *sites_collect(struct patch_site *const *all, size_t count, enum patch_state state,
			    struct sites *ret_sites)
{
	struct sites sites = { .items = calloc(count + 1, sizeof(*sites.items)) };

	if (!sites.items)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++) {
		if (all[i]->state == state)
			sites.items[sites.count++] = all[i];
	}
	sites_sort(sites.items, sites.count);
	for (size_t i = 0; i < sites.count; i++) {
		const struct patch_site *site = sites.items[i];

		assert(site->length > 0 && site->length <= DT_SITE_BYTES);
		assert(site->move_count <= PATCH_MOVES_MAX);
		/* L1: the planner joins probes that overlap into one site */
		assert(i == 0 || sites.items[i - 1]->address.v + sites.items[i - 1]->length <=
					 site->address.v);
	}
	*ret_sites = sites;
	return NULL;
}

void sites_free(struct sites *sites)
{
	free(sites->items);
	*sites = (struct sites){ 0 };
}

size_t sites_at(const struct sites *sites, taddr address)
{
	size_t n = sorted_count(sites->count, i, sites->items[i]->address.v < address.v);

	return n < sites->count && taddr_equal(sites->items[n]->address, address) ? n :
										    sites->count;
}

size_t sites_changed(const struct patch_site *site)
{
	size_t n = site->length;

	while (n > 0 && site->patched[n - 1] == site->original[n - 1])
		n--;
	return n;
}

const struct patch_move *sites_move(const struct patch_site *site, uint64_t offset)
{
	for (size_t i = 0; i < site->move_count; i++) {
		if (site->moves[i].offset == offset)
			return &site->moves[i];
	}
	return NULL;
}

void sites_fail(struct patch_site *site, enum patch_state state, struct error *error)
{
	assert(error && state != PATCH_PLACED);
	error_free(site->error);
	site->error = error;
	site->state = state;
}

/* Of sites by address, the one whose bytes hold the address; NULL: none. */
static struct patch_site *covering(struct patch_site *sites, size_t count, taddr address)
{
	size_t n = sorted_count(count, i,
				sites[i].address.v + sites[i].length <= address.v);

	return n < count && sites[n].address.v <= address.v ? &sites[n] : NULL;
}

void patch_link(struct patch_site *sites, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct patch_site *site = &sites[i];

		if (site->patched[0] != SHORT_JUMP || site->length < SHORT_JUMP_SIZE)
			continue;
		taddr waypoint =
			taddr_add(site->address, SHORT_JUMP_SIZE + (int8_t)site->patched[1]);
		site->after = covering(sites, count, waypoint);
		if (site->after)
			site->waypoint = waypoint;
	}
}

bool patch_may_hold(struct proc *proc, const struct maps *maps, const struct patch_site *site)
{
	uint8_t now[DT_SITE_BYTES];
	_cleanup_error_ struct error *error = mem_read(proc, site->address, now, site->length);

	return error ? maps && maps_find(maps, site->address) :
		       memcmp(now, site->patched, site->length) == 0;
}

bool patch_holds(struct proc *proc, const struct patch_site *site)
{
	return patch_may_hold(proc, NULL, site);
}
