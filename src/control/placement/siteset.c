#include "shared/sorted.h"
#include "planner.h"

#include <assert.h>
#include <string.h>

/* The index of the first site after the address. */
static size_t index_behind(const struct planner *planner, taddr address)
{
	return sorted_count(planner->sites.count, i,
			    planner->sites.items[i]->address.v <= address.v);
}

size_t siteset_index(const struct planner *planner, uint64_t address)
{
	return sorted_count(planner->sites.count, i, planner->sites.items[i]->address.v < address);
}

void siteset_close_gap(struct planner *planner, size_t start, size_t end)
{
	assert(start <= end && end <= planner->sites.count);
	memmove(planner->sites.items + start, planner->sites.items + end,
		(planner->sites.count - end) * sizeof(*planner->sites.items));
	planner->sites.count -= end - start;
}

uint64_t site_claim(const struct site *site)
{
	return site->fixed_length > site->length ? site->fixed_length : site->length;
}

struct site *siteset_before(const struct planner *planner, taddr address)
{
	size_t index = index_behind(planner, address);

	return index ? planner->sites.items[index - 1] : NULL;
}

struct site *siteset_overlapping(const struct planner *planner, taddr start, taddr end)
{
	size_t index = index_behind(planner, start);
	struct site *before = index ? planner->sites.items[index - 1] : NULL;

	if (before && before->address.v + site_claim(before) > start.v)
		return before;
	if (index < planner->sites.count && planner->sites.items[index]->address.v < end.v)
		return planner->sites.items[index];
	return NULL;
}

bool siteset_fits(const struct planner *planner, const struct site *site)
{
	size_t next = index_behind(planner, site->address);
	const struct site *before = next > 1 ? planner->sites.items[next - 2] : NULL;
	const struct site *after = next < planner->sites.count ? planner->sites.items[next] : NULL;

	return next && planner->sites.items[next - 1] == site &&
	       (!before || before->address.v + site_claim(before) <= site->address.v) &&
	       (!after || site->address.v + site_claim(site) <= after->address.v);
}

void planner_keep_room(struct planner *planner, struct site_list *list)
{
	size_t n = 0;

	assert(!planner->sites.count);
	while (n < PLANNER_ROOMS && planner->rooms[n])
		n++;
	assert(n < PLANNER_ROOMS);
	planner->rooms[n] = list;
}

/* (L5) */
static bool make_room(struct planner *planner)
{
	size_t all = planner->sites.count + planner->superseded.count + 1;
	bool enough = vec_reserve(&planner->sites, planner->superseded.count + 1);

	for (size_t i = 0; i < PLANNER_ROOMS && planner->rooms[i]; i++)
		enough = enough && vec_reserve(planner->rooms[i], all);
	return enough;
}

void siteset_note(struct planner *planner, const struct site *site)
{
	if (site->address.v < planner->span.low)
		planner->span.low = site->address.v;
	if (site->address.v > planner->span.high)
		planner->span.high = site->address.v;
}

bool siteset_insert(struct planner *planner, struct site *site)
{
	if (!make_room(planner))
		return false;
	siteset_put(planner, site);
	siteset_note(planner, site);
	return true;
}

void siteset_put(struct planner *planner, struct site *site)
{
	size_t index = index_behind(planner, site->address);

	assert(planner->sites.count < planner->sites.room); /* L5 */
	memmove(planner->sites.items + index + 1, planner->sites.items + index,
		(planner->sites.count - index) * sizeof(*planner->sites.items));
	planner->sites.items[index] = site;
	planner->sites.count++;
	assert(siteset_fits(planner, site)); /* L1 */
}

void siteset_remove(struct planner *planner, struct site *site)
{
	size_t index = index_behind(planner, site->address) - 1;

	assert(index < planner->sites.count && planner->sites.items[index] == site); /* L1 */
	planner->sites.count--;
	memmove(planner->sites.items + index, planner->sites.items + index + 1,
		(planner->sites.count - index) * sizeof(*planner->sites.items));
}

void site_free(struct site *site)
{
	if (!site)
		return;
	vec_free(&site->probes);
	vec_free(&site->kept);
	error_free(site->patch.error);
	error_free(site->refusal);
	free(site);
}

void site_take_hop(struct site *site, struct site *from)
{
	if (!from->hop_piece.size)
		return;
	assert(!site->hop_piece.size && taddr_equal(site->hop, from->hop));
	site->hop_piece = from->hop_piece;
	from->hop_piece.size = 0;
}

/* The offset of the first slot: after the site's own jump, if it has one. */
static size_t slots_start(const struct site *site)
{
	return site->insn_count ? JUMP_LENGTH : 0;
}

static bool can_host(const struct site *site)
{
	return site->way == DIVERT_JUMP || site->way == DIVERT_NONE;
}

size_t site_slots_free(const struct site *site)
{
	size_t slots;

	if (!can_host(site) || site->emitted || site->length < slots_start(site)) /* L2 */
		return 0;
	slots = (site->length - slots_start(site)) / JUMP_LENGTH;
	assert(site->slot_count <= slots);
	return slots - site->slot_count;
}

taddr site_slot(const struct site *site, size_t index)
{
	return taddr_add(site->address, (int64_t)(slots_start(site) + index * JUMP_LENGTH));
}
