#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"

#define TRAP 0xcc

/* Is something to come in the place of the group's old sites? In a second try it may be there
 * already. */
static bool is_awaited(struct patch_site *const *all, size_t count, unsigned group)
{
	for (size_t i = 0; i < count; i++) {
		if (all[i]->group == group && all[i]->state == PATCH_PLANNED)
			return true;
	}
	return false;
}

struct error *exchange_begin(struct exchange *x, struct proc *proc, struct patch_site *const *all,
			     size_t count)
{
	size_t kept = 0, waypoints = 0;
	struct error *err = sites_collect(all, count, PATCH_PLACED, &x->old);

	x->proc = proc;
	for (size_t i = 0; !err && i < x->old.count; i++) {
		if (x->old.items[i]->group && is_awaited(all, count, x->old.items[i]->group))
			x->old.items[kept++] = x->old.items[i];
	}
	x->old.count = kept;
	if (err || !kept)
		return err;
	x->via_ranges = calloc(kept, sizeof(*x->via_ranges));
	if (!x->via_ranges)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < kept; i++) {
		uint64_t waypoint = x->old.items[i]->waypoint.v;

		if (waypoint)
			x->via_ranges[waypoints++] =
				(struct stack_scan_range){ .start = waypoint, .end = waypoint + 1, .owner = i };
	}
	if (!waypoints)
		return NULL;
	err = stack_scan_begin(&x->waypoints, proc, x->via_ranges, waypoints);
	x->waypoints.frames_only = true;
	return err;
}

void exchange_end(struct exchange *x)
{
	sites_free(&x->old);
	stack_scan_end(&x->waypoints);
	free(x->via_ranges);
}

static int by_address(const void *a, const void *b)
{
	const struct patch_site *s = *(struct patch_site *const *)a,
				*t = *(struct patch_site *const *)b;

	return (s->address.v > t->address.v) - (s->address.v < t->address.v);
}

struct patch_site **exchange_list(const struct exchange *x, size_t *ret_count)
{
	struct patch_site **list = calloc(x->old.count + x->new.count + 1, sizeof(*list));

	if (!list)
		return NULL;
	memcpy(list, x->new.items, x->new.count * sizeof(*list));
	memcpy(list + x->new.count, x->old.items, x->old.count * sizeof(*list));
	*ret_count = x->old.count + x->new.count;
	if (x->old.count)
		qsort(list, *ret_count, sizeof(*list), by_address);
	return list;
}

void exchange_overlay(const struct exchange *x, const struct patch_site *site, uint8_t *bytes)
{
	for (size_t i = 0; i < x->old.count && site->group; i++) {
		const struct patch_site *old = x->old.items[i];

		for (size_t j = 0; j < old->length && old->group == site->group; j++) {
			uint64_t at = old->address.v + j - site->address.v;

			if (at < site->length)
				bytes[at] = old->original[j];
		}
	}
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void fail_group(struct exchange *x, unsigned group, const char *reason)
{
	for (size_t i = 0; i < x->new.count; i++) {
		struct patch_site *site = x->new.items[i];

		if (site->group == group && site->state == PATCH_PLANNED)
			sites_fail(site, PATCH_FAILED, error_new(ERROR_REFUSED, "%s", reason));
	}
}

static void delay_group(struct exchange *x, unsigned group, const char *reason)
{
	for (size_t i = 0; i < x->new.count; i++) {
		if (x->new.items[i]->group == group && !x->busy[i])
			x->busy[i] = reason;
	}
}

void exchange_check(struct exchange *x)
{
	for (size_t i = 0; i < x->old.count; i++) {
		const struct patch_site *old = x->old.items[i];
		const uint8_t *now = pages_of_site(x->pages, old);

		if (!now || memcmp(now, old->patched, old->length) != 0)
			fail_group(
				x, old->group,
				"the code of a tracepoint next to it has been changed by somebody else");
	}
}

void exchange_level(struct exchange *x)
{
	for (size_t i = 0; i < x->new.count; i++) {
		const struct patch_site *site = x->new.items[i];

		if (!site->group)
			continue;
		if (site->state == PATCH_FAILED)
			fail_group(x, site->group, error_text(site->error));
		else if (x->busy[i])
			delay_group(x, site->group, x->busy[i]);
	}
}

/* Are its new sites placed now, or have been? */
static bool is_going(const struct exchange *x, unsigned group)
{
	for (size_t i = 0; i < x->new.count; i++) {
		const struct patch_site *site = x->new.items[i];

		if (site->group == group && (x->busy[i] || site->state == PATCH_FAILED))
			return false;
	}
	return true;
}

/* ---- threads --------------------------------------------------------------------------------- */

bool exchange_is_quiet_trap(const struct patch_site *old)
{
	return old->patched[0] == TRAP && old->move_count > 1 && old->moves[1].offset > 1;
}

/* Has a thread run into it, with its signal still to come? What that does depends on where it is. */
static bool is_in_trap(const struct patch_site *old, struct stop *stop)
{
	if (exchange_is_quiet_trap(old))
		return false;
	for (size_t i = 0; i < stop_thread_count(stop) && old->patched[0] == TRAP; i++) {
		if (stop_thread_rip(stop, i).v == old->address.v + 1)
			return true;
	}
	return false;
}

struct error *exchange_find_busy(struct exchange *x, struct stop *stop)
{
	struct error *err = NULL;

	for (size_t i = 0; i < x->old.count; i++) {
		if (is_in_trap(x->old.items[i], stop))
			delay_group(x, x->old.items[i]->group,
				    "a thread has run into the trap there");
	}
	for (size_t i = 0; i < x->waypoints.count; i++)
		x->waypoints.ranges[i].hit = false;
	if (x->waypoints.count)
		err = stack_scan_stacks(&x->waypoints, stop);
	for (size_t i = 0; !err && i < x->waypoints.count; i++) {
		if (x->waypoints.ranges[i].hit)
			delay_group(x, x->old.items[x->waypoints.ranges[i].owner]->group,
				    "a signal handler will return to it");
	}
	return err;
}

bool exchange_is_via(const struct exchange *x, uint64_t rip)
{
	return x->waypoints.count && stack_scan_find(&x->waypoints, rip);
}

struct error *exchange_move(struct exchange *x, struct stop *stop, size_t thread,
			    bool *ret_is_there)
{
	const struct stack_scan_range *range =
		x->waypoints.count ? stack_scan_find(&x->waypoints, stop_thread_rip(stop, thread).v) : NULL;
	const struct patch_site *old = range ? x->old.items[range->owner] : NULL;

	*ret_is_there = old != NULL;
	if (old && stop_thread_trapped(stop, thread))
		return NULL;
	if (!old || old->state != PATCH_PLACED || !is_going(x, old->group))
		return NULL;
	return stop_thread_set_rip(stop, thread, old->moves[0].copy);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

struct error *exchange_restore(struct exchange *x, bool dependents)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < x->old.count; i++) {
		const struct patch_site *old = x->old.items[i];

		if (old->state != PATCH_PLACED || dependents != (old->after != NULL) ||
		    !is_going(x, old->group))
			continue;
		if (pages_crosses(old))
			err = mem_write(x->proc, old->address, old->original, old->length);
		/* our copy of those pages may be written for others */
		if (!err && pages_crosses(old))
			memcpy(pages_of_site(x->pages, old), old->original, old->length);
		else
			pages_put(x->pages, old, old->original);
	}
	return err;
}

/* Something couldn't be written: what was there before comes back, those that others lead through
 * first (P6). */
static struct error *undo_group(struct exchange *x, unsigned group)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < x->new.count; i++) {
		struct patch_site *site = x->new.items[i];

		if (site->group != group || site->state != PATCH_PLACED)
			continue;
		err = mem_write(x->proc, site->address, site->original, site->length);
		sites_fail(site, PATCH_FAILED,
			   error_new(ERROR_FAILED, "what stands next to it can't be written"));
	}
	for (int dependents = 0; dependents < 2; dependents++) {
		for (size_t i = 0; !err && i < x->old.count; i++) {
			const struct patch_site *old = x->old.items[i];

			if (old->group == group && dependents == (old->after != NULL))
				err = mem_write(x->proc, old->address, old->patched, old->length);
		}
	}
	return err;
}

static bool is_broken(const struct exchange *x, unsigned group, bool *ret_placed)
{
	bool failed = false;

	*ret_placed = false;
	for (size_t i = 0; i < x->new.count; i++) {
		const struct patch_site *site = x->new.items[i];

		if (site->group != group)
			continue;
		failed |= site->state == PATCH_FAILED;
		*ret_placed |= site->state == PATCH_PLACED;
	}
	return failed;
}

struct error *exchange_settle(struct exchange *x)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < x->old.count; i++) {
		struct patch_site *old = x->old.items[i];
		bool placed, broken = is_broken(x, old->group, &placed);

		if (broken && placed)
			err = undo_group(x, old->group);
		else if (placed)
			old->state = PATCH_REMOVED;
	}
	return err;
}
