/*
 * sites.h - lists of sites, by state and by address. Private to patch/.
 */
#ifndef DYNTRACE_SITES_H
#define DYNTRACE_SITES_H

#include "patch.h"

struct sites {
	struct patch_site **items; /* sorted by address, not overlapping */
	size_t count;
};

/* The sites that are in this state. */
struct error *sites_collect(struct patch_site *const *all, size_t count, enum patch_state state,
			    struct sites *ret_sites);
void sites_free(struct sites *sites);

/* By address. */
void sites_sort(struct patch_site **items, size_t count);

/* The index of the site at this address; sites->count: none is. */
size_t sites_at(const struct sites *sites, taddr address);

/* The number of leading bytes that the patch changes; the bytes behind them stay as they were. */
size_t sites_changed(const struct patch_site *site);

/* The move of the boundary `offset` bytes into the site; NULL: no instruction begins there. */
const struct patch_move *sites_move(const struct patch_site *site, uint64_t offset);

/* Sets the site's state and its error, which the site owns from then on. */
void sites_fail(struct patch_site *site, enum patch_state state, struct error *error);

#endif
