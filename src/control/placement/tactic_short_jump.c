/*
 * tactic_short_jump.c - find a slot: five bytes for the long jump of a site with room for a short
 * one.
 *
 * The search tries, in this order: a spare slot of a site; padding that is never executed; a new
 * site, made for its slot alone, of instructions without a branch target inside. The new site costs
 * every thread that passes there a jump and back: so few instructions are best, and then the
 * nearest. The site with the slot is the slot host.
 */
#include <assert.h>
#include <stdlib.h>

#include "tactic.h"

#define SHORT_MIN -128
#define SHORT_MAX 127
#define HOST_LENGTH (2 * JUMP_LENGTH)
#define PART 160 /* bytes to both sides: a short jump and a site */

static bool reaches(taddr from, taddr to)
{
	int64_t distance = taddr_diff(to, taddr_add(from, SHORT_JUMP_LENGTH));

	return distance >= SHORT_MIN && distance <= SHORT_MAX;
}

/* Has the site a free slot within reach? Slots are given out in order. */
static bool spare_slot(const struct planner *planner, const struct site *site, taddr from)
{
	return site->group == planner->group && site_slots_free(site) && /* L4 */
	       reaches(from, site_slot(site, site->slot_count));
}

static struct site *find_spare(const struct planner *planner, taddr from)
{
	struct site *site = siteset_before(planner, taddr_add(from, SHORT_MAX + 2));

	while (site && site->address.v + DT_SITE_BYTES >= from.v - 128) {
		if (spare_slot(planner, site, from))
			return site;
		site = siteset_before(planner, taddr_add(site->address, -1));
	}
	return NULL;
}

/* ---- one function and the padding after it --------------------------------------------------- */

static bool is_dead_byte(const struct tactic_view *view, size_t index)
{
	const struct body_insn *insn = &view->body->insns.items[index];
	taddr at = taddr_add(view->module->module->bias, (int64_t)insn->at);

	return insn->dead && !siteset_overlapping(view->planner, at, taddr_add(at, insn->length)) &&
	       !plan_is_wanted(view->planner, at, taddr_add(at, insn->length));
}

/* The instructions within reach of a short jump, roughly. */
static void near_part(const struct tactic_view *view, taddr from, size_t *ret_first,
		      size_t *ret_end)
{
	uint64_t at = from.v - view->module->module->bias.v, low = at > PART ? at - PART : 0;
	size_t count = view->body->insns.count;

	if (!body_find(view->body, low, ret_first))
		*ret_first = low < view->body->start ? 0 : count;
	if (!body_find(view->body, at + PART, ret_end))
		*ret_end = at + PART < view->body->start ? 0 : count;
}

/* Makes a slot host of padding, as long as whole slots. */
static bool make_padding(const struct tactic_view *view, taddr from, struct site **ret_host)
{
	const struct body_insn *insns = view->body->insns.items;
	size_t first, count;

	near_part(view, from, &first, &count);
	for (size_t i = first, next; i < count; i = next + 1) {
		uint64_t length = 0;

		for (next = i; next < count && is_dead_byte(view, next); next++)
			length += insns[next].length;
		taddr at = taddr_add(view->module->module->bias, (int64_t)insns[i].at);
		if (length < JUMP_LENGTH || !reaches(from, at))
			continue;
		if (length > DT_SITE_BYTES)
			length = DT_SITE_BYTES;
		struct run run = { i, 0, length / JUMP_LENGTH * JUMP_LENGTH };
		struct error *error = run_make_site(view, &run, "short-jump", ret_host);
		error_free(error);
		if (error)
			return false;
		(*ret_host)->way = DIVERT_NONE;
		return true;
	}
	return false;
}

/* Would a site that begins there leave code before it that no later jump could cover? */
static bool leaves_orphans(const struct tactic_view *view, size_t first)
{
	taddr at =
		taddr_add(view->module->module->bias, (int64_t)view->body->insns.items[first].at);
	const struct site *before = siteset_before(view->planner, taddr_add(at, -1));

	return view->body->insns.items[first].way == WAY_NONE &&
	       !(before && before->address.v + before->length == at.v);
}

/* Finds the best run for a new slot host. */
static bool find_run(const struct tactic_view *view, taddr from, struct run *ret_run)
{
	const struct body_insn *insns = view->body->insns.items;
	bool found = false, found_orphans = false;
	int64_t bias = (int64_t)view->module->module->bias.v;
	size_t first, end;

	near_part(view, from, &first, &end);
	for (size_t i = first; i < end; i++) {
		taddr slot = taddr_of(insns[i].at + (uint64_t)bias + JUMP_LENGTH);
		struct run run;

		if (!reaches(from, slot) || insns[i].dead)
			continue;
		struct error *error = run_gather(view, i, HOST_LENGTH, HOST_LENGTH, &run);
		error_free(error);
		bool orphans = !error && leaves_orphans(view, i);
		if (error || (found && (orphans > found_orphans ||
					(orphans == found_orphans && run.count >= ret_run->count))))
			continue;
		*ret_run = run;
		found = true;
		found_orphans = orphans;
	}
	return found;
}

static bool host_in(const struct tactic_view *view, taddr from, struct site **ret_host)
{
	struct run run;

	if (make_padding(view, from, ret_host))
		return true;
	if (!find_run(view, from, &run))
		return false;
	struct error *error = run_make_site(view, &run, "jump", ret_host);
	error_free(error);
	return !error;
}

/* ---- neighbours ------------------------------------------------------------------------------ */

/* Reads the function around the address, or the nearest one before or after it within reach of a
 * short jump. */
static bool read_neighbour(const struct tactic_view *view, uint64_t from, int step,
			   struct tactic_view *ret_view)
{
	struct body *near = &view->planner->near;
	uint64_t start, end;

	for (int i = 0; i < SHORT_MAX; i++, from += (uint64_t)(int64_t)step) {
		if (!function_bounds(view->module, NULL, from, &start, &end))
			continue;
		if (!body_read(near, view->module->symtab, view->module->branch_targets, start,
			       end))
			return false;
		*ret_view = *view;
		ret_view->body = near;
		return true;
	}
	return false;
}

static bool host_near(const struct tactic_view *view, taddr from, struct site **ret_host)
{
	uint64_t at = from.v - view->module->module->bias.v;
	struct tactic_view neighbour;

	if (at - view->body->start < 128 &&
	    read_neighbour(view, view->body->start - 1, -1, &neighbour) &&
	    host_in(&neighbour, from, ret_host))
		return true;
	return view->body->end - at < SHORT_MAX &&
	       read_neighbour(view, view->body->end, 1, &neighbour) &&
	       neighbour.body->start != view->body->start && host_in(&neighbour, from, ret_host);
}

struct error *short_jump_take_slot(const struct tactic_view *view, taddr from,
				   struct site **ret_host, size_t *ret_slot)
{
	struct site *host = find_spare(view->planner, from);

	if (!host && !host_in(view, from, &host) && !host_near(view, from, &host))
		return error_new(ERROR_REFUSED,
				 "no room for a long jump within reach of a short one");
	assert(!host->emitted && host->group == view->planner->group); /* L2, L4 */
	assert(site_slots_free(host) && reaches(from, site_slot(host, host->slot_count)));
	*ret_host = host;
	*ret_slot = host->slot_count++;
	return NULL;
}
