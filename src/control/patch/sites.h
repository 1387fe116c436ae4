/*
 * sites.h - lists of sites. Private to patch/.
 */
#ifndef DYNTRACE_SITES_H
#define DYNTRACE_SITES_H

#include "patch.h"

struct sites {
	struct patch_site **items; /* sorted by address; they don't overlap */
	size_t count;
};

/* Those of the sites that are in this state. */
struct error *sites_collect(struct patch_site *const *all, size_t count, enum patch_state state,
			    struct sites *ret_sites);
void sites_free(struct sites *sites);

/* How many of its first bytes the patch changes: behind them is what was there before. */
size_t sites_changed(const struct patch_site *site);

/* The move of the boundary `offset` bytes into the site; NULL: no instruction begins there. */
const struct patch_move *sites_move(const struct patch_site *site, uint64_t offset);

/* Sets the site's error, which it takes over. */
void sites_fail(struct patch_site *site, enum patch_state state, struct error *error);

#endif
