#include "exchange.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "shared/sorted.h"

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

bool exchange_has_old(const struct exchange *x, unsigned group)
{
	struct group_range range = { 0 };

	if (group)
		range = groups_find(&x->old_groups, group);
	return range.first < range.end;
}

const struct patch_site *exchange_old_at(const struct exchange *x, const struct patch_site *site,
					 size_t *at)
{
	if (!site->group)
		return NULL;
	if (!*at)
		*at = 1 + sorted_count(x->old.count, i,
				       x->old.items[i]->address.v + x->old.items[i]->length <=
					       site->address.v);
	while (*at <= x->old.count) {
		const struct patch_site *old = x->old.items[(*at)++ - 1];

		if (old->address.v >= site->address.v + site->length)
			return NULL;
		if (old->group == site->group)
			return old;
	}
	return NULL;
}

void exchange_overlay(const struct exchange *x, const struct patch_site *site, uint8_t *bytes)
{
	const struct patch_site *old;

	for (size_t at = 0; (old = exchange_old_at(x, site, &at));) {
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

/* The first site of the group that has failed, or that has to wait (`busy`); NULL: none. */
static const char *find_reason(const struct exchange *x, struct group_range at, bool busy)
{
	for (; at.first < at.end; at.first++) {
		const struct patch_site *site = new_member(x, at.first);

		if (site->state == PATCH_FAILED ? !busy : busy && *busy_member(x, at.first))
			return busy ? *busy_member(x, at.first) : error_text(site->error);
	}
	return NULL;
}

void exchange_level(struct exchange *x)
{
	struct group_range range;

	for (size_t i = 0; i < x->new_groups.count; i = range.end) {
		unsigned group = x->new_groups.items[i].group;

		range = groups_find(&x->new_groups, group);
		const char *failed = find_reason(x, range, false);
		const char *busy = find_reason(x, range, true);
		if (failed)
			fail_group(x, group, failed);
		if (busy)
			delay_group(x, group, busy);
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

static struct error *restore_site(struct exchange *x, const struct patch_site *old)
{
	struct error *err = NULL;

	if (pages_crosses(old))
		err = mem_write(x->proc, old->address, old->original, old->length);
	/* other sites may have our copy of these pages written */
	if (!err && pages_crosses(old))
		memcpy(pages_of_site(x->pages, old), old->original, old->length);
	pages_put(x->pages, old, old->original);
	return err;
}

struct error *exchange_restore(struct exchange *x, bool dependents)
{
	struct error *err = NULL;
	struct group_range at;

	for (size_t i = 0; !err && i < x->old_groups.count; i = at.end) {
		unsigned group = x->old_groups.items[i].group;
		bool going = is_going(x, group);

		for (at = groups_find(&x->old_groups, group); going && !err && at.first < at.end;
		     at.first++) {
			const struct patch_site *old = old_member(x, at.first);

			if (old->state == PATCH_PLACED && dependents == (old->after != NULL))
				err = restore_site(x, old);
		}
	}
	return err;
}

/* Writes bytes that aren't there yet: a page that couldn't be written may still be as it was. */
static struct error *put_back(struct exchange *x, const struct patch_site *site,
			      const uint8_t *bytes)
{
	uint8_t now[DT_SITE_BYTES];
	_cleanup_error_ struct error *unread =
		mem_read(x->proc, site->address, now, site->length);

	if (!unread && !memcmp(now, bytes, site->length))
		return NULL;
	return mem_write(x->proc, site->address, bytes, site->length);
}

/* Takes the group's new sites out. A site whose bytes can't be taken back stays placed (H32):
 * patch_remove looks again. */
static struct error *undo_new(struct exchange *x, unsigned group)
{
	struct error *first = NULL;

	for (struct group_range at = groups_find(&x->new_groups, group); at.first < at.end;
	     at.first++) {
		struct patch_site *site = new_member(x, at.first);

		if (site->state != PATCH_PLACED && !site->torn)
			continue;
		struct error *err = put_back(x, site, site->original);

		site->torn = false;
		if (err)
			site->state = PATCH_PLACED;
		else if (site->state == PATCH_PLACED)
			sites_fail(site, PATCH_FAILED,
				   error_new(ERROR_FAILED,
					     "the code next to it cannot be written"));
		if (first)
			error_free(err);
		first = first ? first : err;
	}
	return first;
}

/* Brings the old sites back after a failed write, those that others lead through first (P6). New
 * sites of the group whose write failed are in an unknown state. */
static struct error *undo_group(struct exchange *x, unsigned group)
{
	struct error *err = undo_new(x, group);

	for (int dependents = 0; dependents < 2; dependents++) {
		for (struct group_range at = groups_find(&x->old_groups, group);
		     !err && at.first < at.end; at.first++) {
			const struct patch_site *old = old_member(x, at.first);

			if (dependents == (old->after != NULL))
				err = put_back(x, old, old->patched);
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
	struct error *first = NULL;
	struct group_range at;

	for (size_t i = 0; i < x->old_groups.count; i = at.end) {
		unsigned group = x->old_groups.items[i].group;
		bool placed, broken = is_broken(x, group, &placed);

		at = groups_find(&x->old_groups, group);
		struct error *err = broken && placed ? undo_group(x, group) : NULL;

		if (first)
			error_free(err);
		first = first ? first : err;
		for (size_t j = at.first; j < at.end; j++) {
			assert(old_member(x, j)->state == PATCH_PLACED); /* P7 */
			if (placed && !broken)
				old_member(x, j)->state = PATCH_REMOVED;
		}
	}
	return first;
}
