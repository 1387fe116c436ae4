/*
 * pun.c - a jump part of whose distance is what was there before.
 *
 * Of five bytes at the site only the first k may change, because something leads to what is behind them. So
 * the distance has 4 - (k - 1) bytes that are given, the upper ones, and the jump can only lead to a range of
 * 256^(k-1) bytes. If that range isn't in use by anybody, a page is mapped there, with a jump (the hop) to the
 * trampoline, which lies anywhere within reach of both.
 */
#include <string.h>

#include "tactic.h"

static struct error *longest_run(const struct tactic_view *view, struct run *ret_run)
{
	struct error *error = NULL;

	for (size_t need = JUMP_LENGTH - 1; need > 0; need--) {
		error_free(error);
		error = run_gather(view, view->index, need, ret_run);
		if (!error || error_kind(error) != ERROR_REFUSED)
			return error;
	}
	return error;
}

/* The addresses that the jump can lead to. */
static void find_range(const struct tactic_view *view, taddr at, size_t k, uint64_t *ret_low, uint64_t *ret_high)
{
	const struct text_range *text = view->body->text;
	uint64_t offset = at.v - view->module->module->bias.v - text->address;
	uint8_t jump[JUMP_LENGTH] = { 0 };
	int32_t distance;

	memcpy(jump + k, text->bytes + offset + k, JUMP_LENGTH - k);
	memcpy(&distance, jump + 1, sizeof(distance));
	*ret_low = at.v + JUMP_LENGTH + (uint64_t)(int64_t)distance;
	*ret_high = *ret_low + (1ULL << 8 * (k - 1));
}

static const struct site *hop_at(struct site *const *sites, size_t count, taddr at)
{
	for (size_t i = 0; i < count; i++) {
		const struct site *other = sites[i];

		if (other->way == DIVERT_PUN && other->hop.v + HOP_LENGTH > at.v && at.v + HOP_LENGTH > other->hop.v)
			return other;
	}
	return NULL;
}

static bool is_hop_free(const struct planner *planner, taddr at, const struct site **ret_other)
{
	*ret_other = hop_at(planner->sites.items, planner->sites.count, at);
	if (!*ret_other)
		*ret_other = hop_at(planner->superseded.items, planner->superseded.count, at);
	return !*ret_other;
}

static struct error *find_hop(const struct tactic_view *view, taddr at, size_t k, taddr *ret_hop)
{
	const struct site *before = NULL;
	uint64_t low, high;

	find_range(view, at, k, &low, &high);
	while (low < high) {
		const struct site *other;
		taddr hop;

		if (!near_find_in(&view->planner->maps, taddr_of(low), taddr_of(high + HOP_LENGTH - 1), HOP_LENGTH,
				  &hop))
			break;
		if (is_hop_free(view->planner, hop, &other)) {
			*ret_hop = hop;
			return NULL;
		}
		if (taddr_equal(other->address, at))
			before = other;
		low = other->hop.v + HOP_LENGTH;
	}
	if (before) /* threads are on their way through it */
		return error_new(ERROR_REFUSED,
				 "a tracepoint is there already, by a jump that can lead to one place only: remove it first, or "
				 "add both in one command");
	return error_new(ERROR_REFUSED,
			 "the bytes behind it must stay, and the only jump that they allow leads to memory in use");
}

struct error *pun_try(const struct tactic_view *view, struct site **ret_site)
{
	const struct text_range *text = view->body->text;
	struct run run;
	struct error *error = longest_run(view, &run);

	if (error)
		return error;
	uint64_t at = view->body->insns.items[view->index].at;
	taddr address = taddr_add(view->module->module->bias, (int64_t)at);
	if (run.length >= JUMP_LENGTH || at + JUMP_LENGTH > text->address + text->size)
		return error_new(ERROR_REFUSED, "the code ends there");
	if (siteset_overlapping(view->planner, address, taddr_add(address, JUMP_LENGTH)))
		return error_new(ERROR_REFUSED, "another tracepoint changes the bytes behind it");
	/* bytes that a jump relies on can hold no other site: one that is wanted there goes first, by a trap */
	if (plan_is_wanted(view->planner, taddr_add(address, (int64_t)run.length), taddr_add(address, JUMP_LENGTH)))
		return error_new(ERROR_REFUSED, "another tracepoint is wanted at the bytes behind it");
	taddr hop = { 0 };
	error = find_hop(view, address, run.length, &hop);
	if (!error)
		error = run_make_site(view, &run, "pun", ret_site);
	if (error)
		return error;
	(*ret_site)->way = DIVERT_PUN;
	(*ret_site)->hop = hop;
	(*ret_site)->fixed_length = JUMP_LENGTH;
	return NULL;
}
