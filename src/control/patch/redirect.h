/*
 * redirect.h - change where the trampolines of removed sites lead (P8). Private to patch/.
 *
 * Redirects happen while the threads are held. Forked processes run the same code meanwhile: so a
 * jump is changed by one store that they see as a whole, and the new target does the same as the
 * old one.
 */
#ifndef DYNTRACE_REDIRECT_H
#define DYNTRACE_REDIRECT_H

#include "sites.h"

struct redirect_change {
	const struct patch_site *new;
	struct patch_site *old; /* NULL: the new site's own hop */
	uint8_t *distance;
	int32_t before;
};

struct redirect {
	/* sites whose trampolines may have to be redirected, sorted by their ends */
	struct patch_site **old;
	size_t old_count;
	VEC(struct redirect_change) changes;
};

struct error *redirect_begin(struct redirect *redirect, struct patch_site *const *all,
			     size_t count);
void redirect_end(struct redirect *redirect);

/* Why the new site can't have the old trampolines that need it redirected to its copy; NULL: it
 * can, or none needs it. */
const char *redirect_refusal(const struct redirect *redirect, const struct patch_site *new);
/* Redirects the old trampolines to the new site. Call before the site's bytes are written. */
void redirect_apply(struct redirect *redirect, const struct patch_site *new);
/* Takes the redirects to every new site back that is not placed. */
void redirect_undo(struct redirect *redirect);

#endif
