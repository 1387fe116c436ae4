/*
 * tactic_pun.c - a jump whose distance partly consists of the bytes that follow the site.
 *
 * Of the five bytes of a jump only the first k may change, because the bytes after them are a
 * branch target. So the upper 4 - (k - 1) bytes of the distance are given, and the jump can only
 * lead to a range of 256^(k-1) bytes. If that range holds free memory, a page is mapped there, with
 * a jump (the hop) to the trampoline, which lies anywhere within reach of both.
 *
 * Each page, or run of pages, with hops is a window of code memory, and these are few
 * (DT_WINDOWS_MAX). So sites whose ranges overlap put their hops side by side: each range of the
 * larger sizes has one address in it, at least, that is a multiple of half its size, and hops are
 * stacked from there on. A program in Go has thousands of them.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/code/jump.h"
#include "tactic.h"

#define HOP_BITS_SHIFT 22
#define HASH_MULTIPLIER 0x9e3779b97f4a7c15ULL

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

/* Does the hop share one of its grains of memory with a hop at `at`? */
static bool is_beside(const struct site *other, taddr at)
{
	return other->way == DIVERT_PUN &&
	       DT_ROUND_UP(other->hop.v + HOP_LENGTH, NEAR_GRAIN) > (at.v & ~(NEAR_GRAIN - 1)) &&
	       DT_ROUND_UP(at.v + HOP_LENGTH, NEAR_GRAIN) > (other->hop.v & ~(NEAR_GRAIN - 1));
}

static struct site *hop_at(struct site *const *sites, size_t count, taddr at)
{
	for (size_t i = 0; i < count; i++) {
		if (is_beside(sites[i], at))
			return sites[i];
	}
	return NULL;
}

/* The bit of a grain. */
static uint64_t *bit_of(const struct planner *planner, uint64_t grain, uint64_t *ret_mask)
{
	uint64_t bit = grain * HASH_MULTIPLIER >> (64 - HOP_BITS_SHIFT);

	*ret_mask = 1ULL << bit % 64;
	return &planner->hop_bits[bit / 64];
}

/* Notes a hop. Without memory all sites are looked at, each time. */
static void note_hop(struct planner *planner, taddr at)
{
	uint64_t mask;

	if (!planner->hop_bits && !planner->has_hops)
		planner->hop_bits = calloc(1, (1u << HOP_BITS_SHIFT) / 8);
	planner->has_hops = true;
	for (uint64_t grain = at.v / NEAR_GRAIN;
	     planner->hop_bits && grain <= (at.v + HOP_LENGTH - 1) / NEAR_GRAIN; grain++) {
		uint64_t *bits = bit_of(planner, grain, &mask);

		*bits |= mask;
	}
}

/* Has no site ever had a hop that shares a grain with one at `at`? */
static bool is_new_place(const struct planner *planner, taddr at)
{
	uint64_t mask;

	for (uint64_t grain = at.v / NEAR_GRAIN;
	     planner->hop_bits && grain <= (at.v + HOP_LENGTH - 1) / NEAR_GRAIN; grain++) {
		if (*bit_of(planner, grain, &mask) & mask)
			return false;
	}
	return planner->hop_bits || !planner->has_hops;
}

static bool is_hop_free(const struct planner *planner, taddr at, struct site **ret_other)
{
	*ret_other = NULL;
	if (is_new_place(planner, at))
		return true;
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

/* A search and its result: a free place, or a replaced site whose hop may be shared. */
struct search {
	const struct tactic_view *view;
	taddr at;
	size_t k;
	taddr hop;
	struct site *before;
};

/* Finds a place for a hop of its own in [low, high). */
static bool find_free(struct search *search, uint64_t low, uint64_t high)
{
	struct planner *planner = search->view->planner;
	/* Go's runtime has its heap elsewhere, and a libc beside it goes on by mmap */
	bool keep_heap = !branch_targets_has_goroutines(search->view->module->branch_targets);
	struct site *other;

	for (; low < high; low = DT_ROUND_UP(other->hop.v + HOP_LENGTH, NEAR_GRAIN)) {
		if (!near_find_in(&planner->maps, taddr_of(low), taddr_of(high + HOP_LENGTH - 1),
				  HOP_LENGTH, keep_heap, &search->hop))
			return false;
		if (is_hop_free(planner, search->hop, &other))
			return true;
		if (can_share(planner, other, search->at, search->k))
			search->before = other;
	}
	return false;
}

/* The end of the hops that are stacked from `start` on; NULL: out of memory. */
static uint64_t *stack_end(struct planner *planner, uint64_t start)
{
	for (size_t i = 0; i < planner->hop_stacks.count; i++) {
		if (planner->hop_stacks.items[i].start == start)
			return &planner->hop_stacks.items[i].end;
	}
	if (!vec_push(&planner->hop_stacks, (struct hop_stack){ start, start }))
		return NULL;
	return &vec_last(&planner->hop_stacks)->end;
}

/* Finds a place beside the hops of other sites. */
static bool find_stacked(struct search *search, uint64_t low, uint64_t high)
{
	uint64_t half = (high - low) / 2;
	uint64_t *end = half >= DT_PAGE ?
			stack_end(search->view->planner, DT_ROUND_UP(low, half)) :
			NULL;

	if (!end || !find_free(search, *end, high))
		return false;
	*end = DT_ROUND_UP(search->hop.v + HOP_LENGTH, NEAR_GRAIN);
	return true;
}

/* Finds a place for a hop of its own, else takes the hop of the replaced site *ret_of. */
static struct error *find_hop(const struct tactic_view *view, taddr at, size_t k, taddr *ret_hop,
			      struct site **ret_of)
{
	struct search search = { .view = view, .at = at, .k = k };
	uint64_t low, high;

	find_range(view, at, k, &low, &high);
	if (find_stacked(&search, low, high) || find_free(&search, low, high)) {
		*ret_hop = search.hop;
		return NULL;
	}
	if (!search.before)
		return error_new(ERROR_REFUSED,
				 "the bytes after it must stay, and the only jump they allow leads "
				 "to memory in use");
	*ret_hop = search.before->hop;
	*ret_of = search.before;
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
	note_hop(view->planner, hop);
	(*ret_site)->hop_of = hop_of;
	(*ret_site)->fixed_length = JUMP_LENGTH;
	assert(siteset_fits(view->planner, *ret_site)); /* L1 */
	return NULL;
}
