#include "exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"

#define TRAP 0xcc

struct error *exchange_begin(struct exchange *x, struct proc *proc, struct patch_site *const *all,
			     size_t count, const struct sites *new)
{
	size_t kept = 0;
	struct error *err = sites_collect(all, count, PATCH_PLACED, &x->old);

	x->proc = proc;
	x->new = *new;
	if (!err)
		err = groups_begin(&x->new_groups, new->items, new->count);
	for (size_t i = 0; !err && i < x->old.count; i++) {
		struct patch_site *old = x->old.items[i];
		struct group_range range = { 0 };

		if (old->group)
			range = groups_find(&x->new_groups, old->group);
		if (range.first < range.end) /* else a try before has placed the group */
			x->old.items[kept++] = old;
	}
	x->old.count = kept;
	if (!err)
		err = groups_begin(&x->old_groups, x->old.items, x->old.count);
	return err ? err : waypoints_begin(&x->waypoints, proc, &x->old);
}

void exchange_end(struct exchange *x)
{
	sites_free(&x->old);
	groups_end(&x->old_groups);
	groups_end(&x->new_groups);
	waypoints_end(&x->waypoints);
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
		sites_sort(list, *ret_count);
	return list;
}

static struct patch_site *old_member(const struct exchange *x, size_t member)
{
	return x->old.items[x->old_groups.items[member].index];
}

static struct patch_site *new_member(const struct exchange *x, size_t member)
{
	return x->new.items[x->new_groups.items[member].index];
}

static const char **busy_member(const struct exchange *x, size_t member)
{
	return &x->busy[x->new_groups.items[member].index];
}

const struct patch_site *exchange_old_next(const struct exchange *x, unsigned group, size_t *at)
{
	struct group_range range = { 0 };

	if (group)
		range = groups_find(&x->old_groups, group);
	return range.first + *at < range.end ? old_member(x, range.first + (*at)++) : NULL;
}

void exchange_overlay(const struct exchange *x, const struct patch_site *site, uint8_t *bytes)
{
	if (!site->group)
		return;
	for (struct group_range at = groups_find(&x->old_groups, site->group); at.first < at.end;
	     at.first++) {
		const struct patch_site *old = old_member(x, at.first);

		for (size_t j = 0; j < old->length; j++) {
			uint64_t offset = old->address.v + j - site->address.v;

			if (offset < site->length)
				bytes[offset] = old->original[j];
		}
	}
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void fail_group(struct exchange *x, unsigned group, const char *reason)
{
	for (struct group_range at = groups_find(&x->new_groups, group); at.first < at.end;
	     at.first++) {
		struct patch_site *site = new_member(x, at.first);

		if (site->state == PATCH_PLANNED)
			sites_fail(site, PATCH_FAILED, error_new(ERROR_REFUSED, "%s", reason));
	}
}

static void delay_group(struct exchange *x, unsigned group, const char *reason)
{
	for (struct group_range at = groups_find(&x->new_groups, group); at.first < at.end;
	     at.first++) {
		if (!*busy_member(x, at.first))
			*busy_member(x, at.first) = reason;
	}
}

void exchange_check(struct exchange *x)
{
	for (size_t i = 0; i < x->old.count; i++) {
		const struct patch_site *old = x->old.items[i];
		const uint8_t *now = pages_of_site(x->pages, old);

		if (!now || memcmp(now, old->patched, old->length) != 0)
			fail_group(x, old->group,
				   "the code of a neighbouring tracepoint was changed by another "
				   "program");
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

/* Are the group's new sites being placed, or placed already? */
static bool is_going(const struct exchange *x, unsigned group)
{
	for (struct group_range at = groups_find(&x->new_groups, group); at.first < at.end;
	     at.first++) {
		if (*busy_member(x, at.first) || new_member(x, at.first)->state == PATCH_FAILED)
			return false;
	}
	return true;
}

/* ---- threads --------------------------------------------------------------------------------- */

bool exchange_is_quiet_trap(const struct patch_site *old)
{
	return old->patched[0] == TRAP && old->move_count > 1 && old->moves[1].offset > 1;
}

/* The old site whose trap a thread with this RIP may have run into, with its SIGTRAP still to come:
 * the handler goes by the RIP. NULL: none. */
static const struct patch_site *trap_behind(const struct exchange *x, taddr rip)
{
	size_t at = sites_at(&x->old, taddr_add(rip, -1));
	const struct patch_site *old = at < x->old.count ? x->old.items[at] : NULL;

	return old && old->patched[0] == TRAP && !exchange_is_quiet_trap(old) ? old : NULL;
}

struct error *exchange_find_busy(struct exchange *x, struct stop *stop)
{
	struct error *err;

	for (size_t i = 0; i < stop_thread_count(stop); i++) {
		const struct patch_site *old = trap_behind(x, stop_thread_rip(stop, i));

		if (old)
			delay_group(x, old->group, "a thread has run into its trap");
	}
	err = waypoints_scan(&x->waypoints, stop);
	for (size_t i = 0; !err && i < x->waypoints.count; i++) {
		if (x->waypoints.ranges[i].hit)
			delay_group(x, x->old.items[x->waypoints.ranges[i].owner]->group,
				    "a signal handler will return to it");
	}
	return err;
}

bool exchange_is_waypoint(const struct exchange *x, taddr rip)
{
	return waypoints_find(&x->waypoints, rip) != NULL;
}

struct error *exchange_move(struct exchange *x, struct stop *stop, size_t thread,
			    bool *ret_at_waypoint)
{
	const struct stack_scan_range *range =
		waypoints_find(&x->waypoints, stop_thread_rip(stop, thread));
	const struct patch_site *old = range ? x->old.items[range->owner] : NULL;

	*ret_at_waypoint = old != NULL;
	if (old && stop_thread_trapped(stop, thread))
		return NULL;
	if (!old || old->state != PATCH_PLACED || !is_going(x, old->group))
		return NULL;
	assert(old->move_count > 0 && old->moves[0].offset == 0);
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
		/* other sites may have our copy of these pages written */
		if (!err && pages_crosses(old))
			memcpy(pages_of_site(x->pages, old), old->original, old->length);
		pages_put(x->pages, old, old->original);
	}
	return err;
}

/* Brings the old sites back after a failed write, those that others lead through first (P6). New
 * sites of the group whose write failed are in an unknown state. */
static struct error *undo_group(struct exchange *x, unsigned group)
{
	struct error *err = NULL;

	for (struct group_range at = groups_find(&x->new_groups, group); !err && at.first < at.end;
	     at.first++) {
		struct patch_site *site = new_member(x, at.first);

		if (site->state != PATCH_PLACED && !site->torn)
			continue;
		err = mem_write(x->proc, site->address, site->original, site->length);
		site->torn = false;
		if (site->state == PATCH_PLACED)
			sites_fail(site, PATCH_FAILED,
				   error_new(ERROR_FAILED,
					     "the code next to it cannot be written"));
	}
	for (int dependents = 0; dependents < 2; dependents++) {
		for (struct group_range at = groups_find(&x->old_groups, group);
		     !err && at.first < at.end; at.first++) {
			const struct patch_site *old = old_member(x, at.first);

			if (dependents == (old->after != NULL))
				err = mem_write(x->proc, old->address, old->patched, old->length);
		}
	}
	return err;
}

/* Has a new site of the group failed? *ret_placed: one is placed, or its write failed. */
static bool is_broken(const struct exchange *x, unsigned group, bool *ret_placed)
{
	bool failed = false;

	*ret_placed = false;
	for (struct group_range at = groups_find(&x->new_groups, group); at.first < at.end;
	     at.first++) {
		const struct patch_site *site = new_member(x, at.first);

		failed |= site->state == PATCH_FAILED;
		*ret_placed |= site->state == PATCH_PLACED || site->torn;
	}
	return failed;
}

struct error *exchange_settle(struct exchange *x)
{
	struct error *err = NULL;

	for (size_t i = 0; !err && i < x->old.count; i++) {
		struct patch_site *old = x->old.items[i];
		bool placed, broken = is_broken(x, old->group, &placed);

		assert(old->state == PATCH_PLACED && old->group); /* P7 */
		if (broken && placed)
			err = undo_group(x, old->group);
		else if (placed)
			old->state = PATCH_REMOVED;
	}
	return err;
}
