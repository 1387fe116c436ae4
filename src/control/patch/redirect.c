#include "redirect.h"

#include <assert.h>
#include <string.h>

#include "control/base/vec.h"

typedef int32_t distance_word __attribute__((aligned(1)));

static void write_distance(uint8_t *at, int32_t distance)
{
	/* one store, which whoever runs the jump sees as a whole: it lies in one cache line */
	*(volatile distance_word *)at = distance;
}

static bool reaches(taddr from, taddr to)
{
	int64_t distance = taddr_diff(to, from);

	return distance >= INT32_MIN && distance <= INT32_MAX;
}

struct error *redirect_begin(struct redirect *outs, struct patch_site *const *all, size_t count)
{
	outs->all = all;
	outs->count = count;
	return vec_reserve(&outs->changes, 2 * count + 1) ?
		       NULL :
		       error_new(ERROR_FAILED, "out of memory");
}

void redirect_end(struct redirect *outs)
{
	vec_free(&outs->changes);
}

/* Where in the new site's copy whoever leaves the old trampoline has to go on; NULL: he needn't go
 * there. */
static const struct patch_move *way_on(const struct patch_site *old, const struct patch_site *new)
{
	/* from the new site's start */
	uint64_t out = old->address.v + old->length - new->address.v;
	bool is_gone = old->state == PATCH_REMOVED ||
		       (old->state == PATCH_PLACED && old->group && old->group == new->group);

	if (!is_gone || !old->back.distance || old->redirect_to || !out || out >= sites_changed(new))
		return NULL;
	return sites_move(new, out);
}

const char *redirect_refusal(const struct redirect *outs, const struct patch_site *new)
{
	if (new->hop.distance && !reaches(new->hop.end, new->tramp_start))
		return "no memory is left within reach of it";
	for (size_t i = 0; i < outs->count; i++) {
		const struct patch_move *move = way_on(outs->all[i], new);

		if (move && !reaches(outs->all[i]->back.end, move->copy))
			return "no memory is left within reach of a tracepoint that was there before";
	}
	return NULL;
}

static void change(struct redirect *outs, const struct patch_site *new, struct patch_site *old,
		   const struct patch_jump *jump, taddr to)
{
	struct redirect_change *change = &outs->changes.items[outs->changes.count++];

	*change = (struct redirect_change){ .new = new, .old = old, .distance = jump->distance };
	memcpy(&change->before, jump->distance, sizeof(change->before));
	write_distance(jump->distance, (int32_t)taddr_diff(to, jump->end));
}

void redirect_lead(struct redirect *outs, const struct patch_site *new)
{
	if (new->hop.distance)
		change(outs, new, NULL, &new->hop, new->tramp_start);
	for (size_t i = 0; i < outs->count; i++) {
		struct patch_site *old = outs->all[i];
		const struct patch_move *move = way_on(old, new);

		if (!move)
			continue;
		change(outs, new, old, &old->back, move->copy);
		old->redirect_to = new;
	}
	assert(outs->changes.count <= 2 * outs->count + 1); /* one old site leads to one new site */
}

void redirect_undo(struct redirect *outs)
{
	size_t kept = 0;

	for (size_t i = 0; i < outs->changes.count; i++) {
		struct redirect_change *change = &outs->changes.items[i];

		if (change->new->state == PATCH_PLACED) {
			outs->changes.items[kept++] = *change;
			continue;
		}
		write_distance(change->distance, change->before);
		if (change->old)
			change->old->redirect_to = NULL;
	}
	outs->changes.count = kept;
}
