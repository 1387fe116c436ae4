#include "redirect.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/vec.h"
#include "shared/sorted.h"

#define CACHE_LINE 64u

typedef int32_t distance_word __attribute__((aligned(1)));

static void write_distance(uint8_t *at, int32_t distance)
{
	/* one store, which threads that run the jump see as a whole */
	assert((uintptr_t)at % CACHE_LINE <= CACHE_LINE - sizeof(distance)); /* P8 */
	*(volatile distance_word *)at = distance;
}

static bool reaches(taddr from, taddr to)
{
	int64_t distance = taddr_diff(to, from);

	return distance >= INT32_MIN && distance <= INT32_MAX;
}

static uint64_t end_of(const struct patch_site *site)
{
	return site->address.v + site->length;
}

static int by_end(const void *a, const void *b)
{
	const struct patch_site *x = *(struct patch_site *const *)a,
				*y = *(struct patch_site *const *)b;

	return (end_of(x) > end_of(y)) - (end_of(x) < end_of(y));
}

/* Has the site's trampoline to be redirected, if its end lies inside a new site? */
static bool may_redirect(const struct patch_site *site)
{
	return site->state == PATCH_REMOVED || (site->state == PATCH_PLACED && site->group);
}

struct error *redirect_begin(struct redirect *redirect, struct patch_site *const *all, size_t count)
{
	redirect->old = calloc(count + 1, sizeof(*redirect->old));
	if (!redirect->old || !vec_reserve(&redirect->changes, count + 1))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++) {
		if (may_redirect(all[i]))
			redirect->old[redirect->old_count++] = all[i];
	}
	qsort(redirect->old, redirect->old_count, sizeof(*redirect->old), by_end);
	return NULL;
}

void redirect_end(struct redirect *redirect)
{
	free(redirect->old);
	vec_free(&redirect->changes);
}

/* The first of the old sites that ends behind the new site's start. */
static size_t first_behind(const struct redirect *redirect, const struct patch_site *new)
{
	return sorted_count(redirect->old_count, i, end_of(redirect->old[i]) <= new->address.v);
}

/* Does the old site at that index end inside the bytes that the new site changes? */
static bool ends_inside(const struct redirect *redirect, size_t index,
			const struct patch_site *new)
{
	return index < redirect->old_count &&
	       end_of(redirect->old[index]) < new->address.v + sites_changed(new);
}

/* The place in the new site's copy where a thread that leaves the old trampoline has to continue;
 * NULL: the old trampoline needs no redirect. */
static const struct patch_move *redirect_target(const struct patch_site *old,
						const struct patch_site *new)
{
	bool is_gone = old->state == PATCH_REMOVED ||
		       (old->state == PATCH_PLACED && old->group == new->group);

	assert(may_redirect(old));
	if (!is_gone || !old->back.distance || old->redirect_to)
		return NULL;
	return sites_move(new, end_of(old) - new->address.v);
}

const char *redirect_refusal(const struct redirect *redirect, const struct patch_site *new)
{
	if (new->hop.distance && !reaches(new->hop.end, new->tramp_start))
		return "no free memory within 2 GB";
	for (size_t i = first_behind(redirect, new); ends_inside(redirect, i, new); i++) {
		const struct patch_site *old = redirect->old[i];
		const struct patch_move *move = redirect_target(old, new);

		if (move && !reaches(old->back.end, move->copy))
			return "no free memory within 2 GB of the tracepoint that was here before";
	}
	return NULL;
}

static void change(struct redirect *redirect, const struct patch_site *new, struct patch_site *old,
		   const struct patch_jump *jump, taddr to)
{
	struct redirect_change *change = &redirect->changes.items[redirect->changes.count++];

	/* an old site leads to one new site, and a new site has one hop of its own */
	assert(redirect->changes.count <= redirect->changes.room);
	assert(reaches(jump->end, to)); /* P8: redirect_refusal has checked it */
	*change = (struct redirect_change){ .new = new, .old = old, .distance = jump->distance };
	memcpy(&change->before, jump->distance, sizeof(change->before));
	write_distance(jump->distance, (int32_t)taddr_diff(to, jump->end));
}

void redirect_apply(struct redirect *redirect, const struct patch_site *new)
{
	assert(new->state == PATCH_PLANNED); /* P8: before its bytes are written */
	if (new->hop.distance)
		change(redirect, new, NULL, &new->hop, new->tramp_start);
	for (size_t i = first_behind(redirect, new); ends_inside(redirect, i, new); i++) {
		struct patch_site *old = redirect->old[i];
		const struct patch_move *move = redirect_target(old, new);

		if (!move)
			continue;
		change(redirect, new, old, &old->back, move->copy);
		old->redirect_to = new;
	}
}

void redirect_undo(struct redirect *redirect)
{
	size_t kept = 0;

	for (size_t i = 0; i < redirect->changes.count; i++) {
		struct redirect_change *change = &redirect->changes.items[i];

		if (change->new->state == PATCH_PLACED) {
			redirect->changes.items[kept++] = *change;
			continue;
		}
		write_distance(change->distance, change->before);
		if (change->old)
			change->old->redirect_to = NULL;
	}
	redirect->changes.count = kept;
}
