#include "redirect.h"

#include <assert.h>
#include <string.h>

#include "control/base/vec.h"

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

struct error *redirect_begin(struct redirect *redirect, struct patch_site *const *all, size_t count)
{
	redirect->all = all;
	redirect->count = count;
	return vec_reserve(&redirect->changes, 2 * count + 1) ?
		       NULL :
		       error_new(ERROR_FAILED, "out of memory");
}

void redirect_end(struct redirect *redirect)
{
	vec_free(&redirect->changes);
}

/* The place in the new site's copy where a thread that leaves the old trampoline has to continue;
 * NULL: the old trampoline needs no redirect. */
static const struct patch_move *redirect_target(const struct patch_site *old,
						const struct patch_site *new)
{
	/* the end of the old site, from the new site's start */
	uint64_t end = old->address.v + old->length - new->address.v;
	bool is_gone = old->state == PATCH_REMOVED ||
		       (old->state == PATCH_PLACED && old->group && old->group == new->group);

	if (!is_gone || !old->back.distance || old->redirect_to || !end ||
	    end >= sites_changed(new))
		return NULL;
	return sites_move(new, end);
}

const char *redirect_refusal(const struct redirect *redirect, const struct patch_site *new)
{
	if (new->hop.distance && !reaches(new->hop.end, new->tramp_start))
		return "no free memory within 2 GB";
	for (size_t i = 0; i < redirect->count; i++) {
		const struct patch_site *old = redirect->all[i];
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
	for (size_t i = 0; i < redirect->count; i++) {
		struct patch_site *old = redirect->all[i];
		const struct patch_move *move = redirect_target(old, new);

		if (!move)
			continue;
		change(redirect, new, old, &old->back, move->copy);
		old->redirect_to = new;
	}
	/* every old site leads to one new site */
	assert(redirect->changes.count <= 2 * redirect->count + 1);
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
