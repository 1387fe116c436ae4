/*
 * redirect.h - where trampolines lead whose sites are gone (P8). Private to patch/.
 *
 * All of it happens while the threads are held. Processes that were forked meanwhile run the same
 * code: so a jump is changed by one store that they see as a whole, and leads to code that does the
 * same.
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
	struct patch_site *const *all; /* borrowed */
	size_t count;
	VEC(struct redirect_change) changes;
};

struct error *redirect_begin(struct redirect *outs, struct patch_site *const *all, size_t count);
void redirect_end(struct redirect *outs);

/* Why who is in an old trampoline can't be led on by the new site; NULL: he can, or needn't. */
const char *redirect_refusal(const struct redirect *outs, const struct patch_site *new);
/* Before the new site's bytes are written. */
void redirect_lead(struct redirect *outs, const struct patch_site *new);
/* For each new site that wasn't placed after all: as it was. */
void redirect_undo(struct redirect *outs);

#endif
