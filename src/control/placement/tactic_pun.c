/*
 * tactic_pun.c - a jump whose distance partly consists of the bytes that follow the site.
 *
 * Of the five bytes of a jump only the first k may change, because the bytes after them are a
 * branch target. So the upper 4 - (k - 1) bytes of the distance are given, and the jump can only
 * lead to a range of 256^(k-1) bytes. If that range holds free memory, a page is mapped there, with
 * a jump (the hop) to the trampoline, which lies anywhere within reach of both.
 */
#include <assert.h>
#include <string.h>

#include "control/code/jump.h"
#include "tactic.h"

static struct error *longest_run(const struct tactic_view *view, struct run *ret_run)
{
	struct error *error = NULL;

	for (size_t need = JUMP_LENGTH - 1; need > 0; need--) {
		error_free(error);
		error = run_gather(view, view->index, need, need, ret_run);
		if (!error || error_kind(error) != ERROR_REFUSED)
			return error;
	}
	return error;
}

/* The range of addresses that the jump can lead to. */
static void find_range(const struct tactic_view *view, taddr at, size_t k, uint64_t *ret_low,
		       uint64_t *ret_high)
{
	const struct text_range *text = view->body->text;
	uint64_t offset = at.v - view->module->module->bias.v - text->address;
	uint8_t jump[JUMP_LENGTH] = { 0 };
	int32_t distance;

	assert(k > 0 && k < JUMP_LENGTH && offset + JUMP_LENGTH <= text->size);
	memcpy(jump + k, text->bytes + offset + k, JUMP_LENGTH - k);
	memcpy(&distance, jump + 1, sizeof(distance));
	*ret_low = at.v + JUMP_LENGTH + (uint64_t)(int64_t)distance;
	*ret_high = *ret_low + (1ULL << 8 * (k - 1));
}

static struct site *hop_at(struct site *const *sites, size_t count, taddr at)
{
	for (size_t i = 0; i < count; i++) {
		struct site *other = sites[i];

		if (other->way == DIVERT_PUN && other->hop.v + HOP_LENGTH > at.v &&
		    at.v + HOP_LENGTH > other->hop.v)
			return other;
	}
	return NULL;
}

static bool is_hop_free(const struct planner *planner, taddr at, struct site **ret_other)
{
	*ret_other = hop_at(planner->sites.items, planner->sites.count, at);
	if (!*ret_other)
		*ret_other = hop_at(planner->superseded.items, planner->superseded.count, at);
	return !*ret_other;
}

/* May a new site use the hop of the old site that it replaces? Then the hop is redirected (P8). */
static bool can_share(const struct planner *planner, const struct site *other, taddr at, size_t k)
{
	return taddr_equal(other->address, at) && other->length == k && other->group &&
	       other->group == planner->group && other->hop_piece.size &&
	       jump_is_whole(other->hop);
}

/* Finds a place for a hop of its own, else takes the hop of the replaced site *ret_of. */
static struct error *find_hop(const struct tactic_view *view, taddr at, size_t k, taddr *ret_hop,
			      struct site **ret_of)
{
	struct site *before = NULL;
	uint64_t low, high;

	find_range(view, at, k, &low, &high);
	while (low < high) {
		struct site *other;
		taddr hop;

		/* Go's runtime has its heap elsewhere, and a libc beside it goes on by mmap */
		if (!near_find_in(&view->planner->maps, taddr_of(low),
				  taddr_of(high + HOP_LENGTH - 1), HOP_LENGTH,
				  !branch_targets_has_goroutines(view->module->branch_targets),
				  &hop))
			break;
		if (is_hop_free(view->planner, hop, &other)) {
			*ret_hop = hop;
			return NULL;
		}
		if (can_share(view->planner, other, at, k))
			before = other;
		low = other->hop.v + HOP_LENGTH;
	}
	if (!before)
		return error_new(ERROR_REFUSED,
				 "the bytes after it must stay, and the only jump they allow leads "
				 "to memory in use");
	*ret_hop = before->hop;
	*ret_of = before;
	return NULL;
}

/* The site's instructions, and how many bytes may change: those of all, or of an instruction behind
 * which goroutines may be parked (go_epilogue.h). */
static struct error *choose_run(const struct tactic_view *view, struct run *ret_run, size_t *ret_k)
{
	const struct text_range *text = view->body->text;

	*ret_k = JUMP_LENGTH - 1;
	if (view->body->insns.items[view->index].way != WAY_PARKED ||
	    !run_gather_back(view, *ret_k, ret_run)) {
		struct error *error = longest_run(view, ret_run);

		if (error)
			return error;
		*ret_k = ret_run->length;
	}
	uint64_t at = view->body->insns.items[ret_run->first].at;
	if (*ret_k >= JUMP_LENGTH || at + JUMP_LENGTH > text->address + text->size)
		return error_new(ERROR_REFUSED, "the code ends there");
	return NULL;
}

struct error *tactic_pun_try(const struct tactic_view *view, struct site **ret_site)
{
	struct run run;
	size_t k;
	struct error *error = choose_run(view, &run, &k);

	if (error)
		return error;
	uint64_t at = view->body->insns.items[run.first].at;
	taddr address = taddr_add(view->module->module->bias, (int64_t)at);
	if (siteset_overlapping(view->planner, address, taddr_add(address, JUMP_LENGTH)))
		return error_new(ERROR_REFUSED, "another tracepoint changes the bytes after it");
	/* bytes that a jump relies on can hold no other site: a probe wanted there goes first, by a
	 * trap */
	if (plan_is_wanted(view->planner, taddr_add(address, (int64_t)k),
			   taddr_add(address, JUMP_LENGTH)))
		return error_new(ERROR_REFUSED,
				 "another tracepoint is requested at the bytes after it");
	taddr hop = { 0 };
	struct site *hop_of = NULL;
	error = find_hop(view, address, k, &hop, &hop_of);
	if (!error)
		error = run_make_site(view, &run, "pun", ret_site);
	if (error)
		return error;
	(*ret_site)->way = DIVERT_PUN;
	(*ret_site)->hop = hop;
	(*ret_site)->hop_of = hop_of;
	(*ret_site)->fixed_length = JUMP_LENGTH;
	assert(siteset_fits(view->planner, *ret_site)); /* L1 */
	return NULL;
}
