/*
 * patch_remove: restore the bytes of placed sites.
 *
 * The first stop restores the original bytes and moves threads at a boundary of a copy back to the
 * site. A thread elsewhere in a trampoline leaves it by itself: all threads are released, and later
 * stops look again, until no thread is left or the time is over (P5).
 */
#include "patch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/remote/unfit.h"
#include "control/stop/stop.h"
#include "drop.h"
#include "pages.h"
#include "stack_scan.h"
#include "sites.h"
#include "waypoints.h"

#define PAUSE_MAX_MS 512 /* a thread waits that long for a busy processor */
#define DROP_PAUSE_MS 32 /* between two stops that drop pages */
#define BEGIN_MS 1000 /* longer, until no signal handler will return to a waypoint */
#define WAYPOINT_SIZE 5 /* a jump */

struct removal {
	struct proc *proc;
	struct stop *stop; /* holds all threads; NULL: nothing may be written (P1) */
	struct sites sites;
	struct pages pages;
	struct drop drop;
	struct stack_scan scan;
	struct stack_scan_range *ranges; /* trampolines; owner is the site's index */
	struct waypoints waypoints;
	const struct patch_also *also; /* NULL: nothing, or it has run */
	bool *restored; /* per site: the original bytes are back */
	bool begun; /* the first stop is over */
	bool more_to_drop;
	bool still_jumps; /* a site left alone leads to its trampoline */
	bool second_pass; /* restores the sites that no other site leads through any more */
};

static void removal_free(struct removal *r)
{
	sites_free(&r->sites);
	pages_free(&r->pages);
	drop_end(&r->drop);
	stack_scan_end(&r->scan);
	waypoints_end(&r->waypoints);
	free(r->ranges);
	free(r->restored);
}

static struct error *removal_begin(struct proc *proc, struct patch_site *const *all, size_t count,
				   struct removal *r)
{
	struct error *err = sites_collect(all, count, PATCH_PLACED, &r->sites);
	size_t n = r->sites.count;

	r->proc = proc;
	r->ranges = calloc(n + 1, sizeof(*r->ranges));
	r->restored = calloc(n + 1, sizeof(*r->restored));
	if (!err && (!r->ranges || !r->restored))
		err = error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; !err && i < n; i++)
		r->ranges[i] = (struct stack_scan_range){
			.start = r->sites.items[i]->tramp_start.v,
			.end = r->sites.items[i]->tramp_end.v,
			.owner = i,
		};
	if (!err)
		err = pages_create(r->sites.items, n, &r->pages);
	if (!err)
		err = drop_begin(&r->drop, proc, &r->pages);
	if (!err)
		err = stack_scan_begin(&r->scan, proc, r->ranges, n);
	r->scan.frames_only = true;
	return err ? err : waypoints_begin(&r->waypoints, proc, &r->sites);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Compares the site's bytes: ours, original already, or changed by another program. A changed site
 * is left alone, with an error. */
static void judge_site(struct removal *r, size_t index, bool *ret_ours)
{
	struct patch_site *site = r->sites.items[index];
	const uint8_t *now = pages_of_site(&r->pages, site);

	*ret_ours = now && memcmp(now, site->patched, site->length) == 0;
	r->restored[index] = now && memcmp(now, site->original, site->length) == 0;
	if (*ret_ours || r->restored[index])
		return;
	/* a debugger's breakpoint may cover our first byte: our jump can come back */
	r->still_jumps |= now && memcmp(now + 1, site->patched + 1, sites_changed(site) - 1) == 0;
	sites_fail(site, PATCH_REMOVED,
		   error_new(ERROR_FAILED,
			     now ? "the code at 0x%lx was changed by another program (left as is)"
				 : "0x%lx is no longer mapped",
			     site->address.v));
}

/* Is the site to be restored in this pass? Dependents come first (P6). */
static bool is_due(const struct removal *r, size_t index)
{
	const struct patch_site *site = r->sites.items[index];

	return site->state == PATCH_PLACED && r->second_pass != (site->after != NULL);
}

/* Leaves sites alone that a site left alone leads through (P6). */
static void keep_hosts(struct removal *r)
{
	for (size_t i = 0; i < r->sites.count; i++) {
		const struct patch_site *site = r->sites.items[i];
		size_t host;

		if (!site->after || r->restored[i])
			continue;
		host = sites_at(&r->sites, site->after->address);
		if (host == r->sites.count)
			continue;
		r->still_jumps = true;
		sites_fail(r->sites.items[host], PATCH_REMOVED,
			   error_new(ERROR_FAILED, "the changed code at 0x%lx jumps through 0x%lx",
				     site->address.v, site->after->address.v));
	}
}

static struct error *write_originals(struct removal *r)
{
	struct error *err;

	assert(r->stop); /* P1 */
	for (size_t i = 0; i < r->sites.count; i++) {
		bool ours;

		if (!is_due(r, i))
			continue;
		judge_site(r, i, &ours);
		if (ours)
			pages_put(&r->pages, r->sites.items[i], r->sites.items[i]->original);
		else if (r->restored[i])
			r->sites.items[i]->state = PATCH_REMOVED;
	}
	err = pages_write(&r->pages, r->proc);
	for (size_t i = 0; !err && i < r->sites.count; i++) {
		const struct patch_site *site = r->sites.items[i];

		if (is_due(r, i) && pages_crosses(site))
			err = mem_write(r->proc, site->address, site->original, site->length);
	}
	return err;
}

static struct error *restore_pass(struct removal *r)
{
	_cleanup_error_ struct error *failure = NULL;
	struct error *err;

	failure = write_originals(r);
	err = pages_read_changed(&r->pages, r->proc);
	for (size_t i = 0; !err && i < r->sites.count; i++) {
		struct patch_site *site = r->sites.items[i];
		const uint8_t *now = pages_of_site(&r->pages, site);

		if (!is_due(r, i))
			continue;
		r->restored[i] = now && memcmp(now, site->original, site->length) == 0;
		if (r->restored[i])
			site->state = PATCH_REMOVED;
		else
			err = error_new(ERROR_FAILED, "the code at 0x%lx cannot be restored: %s",
					site->address.v,
					failure ? error_text(failure) : "the bytes did not change");
	}
	return err;
}

static struct error *restore(struct removal *r)
{
	struct error *err = pages_read(&r->pages, r->proc);

	if (!err && r->waypoints.count) {
		err = restore_pass(r);
		if (!err) /* else the next try restores both (H32) */
			keep_hosts(r);
	}
	r->second_pass = true;
	return err ? err : restore_pass(r);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Is the thread at the moved `syscall` before that boundary? A call that must not end with EINTR
 * was rewound to it (stop/held_rewind.c), behind the code of its guard. */
static bool is_at_call(const struct patch_site *site, const struct patch_move *next, taddr rip)
{
	static const uint8_t code[] = { 0x0f, 0x05 };

	return next->offset >= sizeof(code) && next->copy.v - rip.v == sizeof(code) &&
	       !memcmp(site->original + next->offset - sizeof(code), code, sizeof(code));
}

/* Moves a thread at a boundary of a copy back to the site. *ret_left: it is outside now. */
static struct error *send_back(struct removal *r, size_t thread,
			       const struct stack_scan_range *range, bool *ret_left)
{
	const struct patch_site *site = r->sites.items[range->owner];
	taddr rip = stop_thread_rip(r->stop, thread);
	struct error *err;

	*ret_left = false;
	for (size_t i = 0; r->restored[range->owner] && i < site->move_count; i++) {
		const struct patch_move *move = &site->moves[i];

		if (!taddr_equal(rip, move->copy) && !is_at_call(site, move, rip))
			continue;
		/* as far from the boundary as in the copy */
		err = stop_thread_set_rip(r->stop, thread,
					  taddr_add(site->address,
						    move->offset + taddr_diff(rip, move->copy)));
		*ret_left = !err;
		return err;
	}
	return NULL;
}

/* Is no thread in a trampoline, and will none return to one? */
static struct error *look_for_threads(struct removal *r, bool *ret_idle)
{
	struct error *err = NULL;
	bool idle = true;

	assert(r->begun); /* P5: while a site jumps, threads come in */
	for (size_t i = 0; !err && i < stop_thread_count(r->stop); i++) {
		const struct stack_scan_range *range =
			stack_scan_find(&r->scan, stop_thread_rip(r->stop, i).v);
		bool left = true;

		if (range)
			err = send_back(r, i, range, &left);
		idle &= left;
	}
	if (!err && idle)
		err = stack_scan_stacks(&r->scan, r->stop);
	for (size_t i = 0; i < r->scan.count; i++)
		idle &= !r->scan.ranges[i].hit;
	*ret_idle = idle;
	return err;
}

/* Does the site's waypoint still hold our jump? Where the original bytes are back, a thread there
 * runs the program's own code. */
static bool is_waypoint_ours(const struct removal *r, const struct patch_site *site)
{
	uint8_t now[WAYPOINT_SIZE];
	uint64_t at;

	if (!site->after)
		return true; /* in our memory */
	at = site->waypoint.v - site->after->address.v;
	if (at + sizeof(now) > site->after->length)
		return false; /* a takeover finds sites that lead anywhere */
	_cleanup_error_ struct error *err = mem_read(r->proc, site->waypoint, now, sizeof(now));
	return !err && memcmp(now, site->after->patched + at, sizeof(now)) == 0;
}

/* Moves threads at a waypoint back to the site, before the site's bytes go back. *ret_clear: no
 * signal handler will return to a waypoint. */
static struct error *clear_waypoints(struct removal *r, bool *ret_clear)
{
	struct stop *stop = r->stop;
	struct error *err = NULL;

	*ret_clear = true;
	if (!r->waypoints.count)
		return NULL;
	for (size_t i = 0; !err && i < stop_thread_count(stop); i++) {
		const struct stack_scan_range *range =
			waypoints_find(&r->waypoints, stop_thread_rip(stop, i));
		const struct patch_site *site = range ? r->sites.items[range->owner] : NULL;

		if (site && is_waypoint_ours(r, site) && !stop_thread_trapped(stop, i))
			err = stop_thread_set_rip(stop, i, site->address);
	}
	if (!err)
		err = waypoints_scan(&r->waypoints, stop);
	for (size_t i = 0; i < r->waypoints.count; i++) {
		const struct stack_scan_range *range = &r->waypoints.ranges[i];

		if (range->hit && is_waypoint_ours(r, r->sites.items[range->owner]))
			*ret_clear = false;
	}
	return err;
}

/* ---- tries ---------------------------------------------------------------------------------- */

/* (P9) The original bytes are back. */
static struct error *run_also(struct removal *r)
{
	struct error *err = r->also && !r->still_jumps ? r->also->run(r->also->data, r->stop) :
							 NULL;

	if (!err)
		r->also = NULL;
	return err;
}

static struct error *remove_held(struct removal *r, bool *ret_idle)
{
	struct error *err = NULL;
	bool clear;

	*ret_idle = false;
	if (!r->begun) {
		err = clear_waypoints(r, &clear);
		if (!err && clear && r->also && r->also->may_run)
			err = r->also->may_run(r->also->data, r->stop, &clear);
		if (err || !clear)
			return err;
		err = restore(r);
	} else if (r->more_to_drop) {
		err = pages_read(&r->pages, r->proc);
	}
	r->begun = true;
	if (!err)
		err = run_also(r);
	if (!err)
		err = look_for_threads(r, ret_idle);
	if (!err && r->more_to_drop)
		err = drop_some(&r->drop, r->proc, r->stop, &r->more_to_drop);
	return err;
}

static struct error *remove_try(struct removal *r, bool *ret_idle, struct patch_stats *stats)
{
	uint64_t us = 0;
	_cleanup_(maps_free) struct maps before = { 0 };
	struct error *err = maps_read(r->proc, &before);

	if (!err)
		err = stop_all(r->proc, STOP_TIMEOUT_MS, &r->stop);
	r->proc->maps_before = err ? NULL : &before;
	if (!err)
		err = remove_held(r, ret_idle);
	r->proc->maps_before = NULL;
	stop_release(r->stop, &us);
	r->stop = NULL;
	if (us > stats->stopped_us)
		stats->stopped_us = us;
	return err;
}

struct error *patch_remove(struct proc *proc, struct patch_site **sites, size_t count,
			   unsigned timeout_ms, const struct patch_also *also, bool *ret_idle,
			   struct patch_stats *ret_stats)
{
	_cleanup_(removal_free) struct removal r = { .more_to_drop = true, .also = also };
	struct patch_stats stats = { 0 };
	uint64_t deadline = now_ms() + timeout_ms;
	unsigned unfit = 0;
	bool idle = false;
	struct error *err = removal_begin(proc, sites, count, &r);

	if (!err && !r.sites.count)
		idle = true;
	for (unsigned ms = 1; !err && r.sites.count; ms = ms < PAUSE_MAX_MS ? 2 * ms : ms) {
		do
			err = remove_try(&r, &idle, &stats);
		while (unfit_try_again(&err, &unfit)); /* a later stop does what is left */
		if (err || (idle && !r.more_to_drop) ||
		    (!idle && now_ms() >= (r.begun ? deadline : deadline + BEGIN_MS)))
			break;
		/* the next stop must not catch a thread before it has run at all */
		unsigned pause = idle && ms > DROP_PAUSE_MS ? DROP_PAUSE_MS : ms;
		nanosleep(&(struct timespec){ .tv_nsec = pause * 1000000L }, NULL);
	}
	if (!err && r.sites.count && !r.begun)
		err = error_new(ERROR_FAILED, "cannot remove a probe now: a signal handler will "
					      "return to its jump (try again)");
	if (err)
		return err;
	for (size_t i = 0; i < r.sites.count; i++)
		assert(r.sites.items[i]->state == PATCH_REMOVED); /* P5 */
	for (size_t i = 0; i < count; i++)
		stats.failed += sites[i]->error != NULL;
	*ret_idle = idle && !r.still_jumps;
	*ret_stats = stats;
	return NULL;
}

/* ---- searches ------------------------------------------------------------------------------- */

struct error *patch_search_begin(struct patch_search *search, struct proc *proc,
				 const struct patch_range *ranges, size_t count)
{
	*search = (struct patch_search){ ranges, count, calloc(count + 1, sizeof(*search->list)),
					 calloc(1, sizeof(*search->scan)) };
	if (!search->list || !search->scan)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < count; i++)
		search->list[i] = (struct stack_scan_range){ .start = ranges[i].start.v,
							     .end = ranges[i].end.v,
							     .is_called = ranges[i].is_called };
	struct error *err = stack_scan_begin(search->scan, proc, search->list, count);
	search->scan->frames_only = true;
	return err;
}

void patch_search_end(struct patch_search *search)
{
	if (search->scan)
		stack_scan_end(search->scan);
	free(search->scan);
	free(search->list);
	*search = (struct patch_search){ 0 };
}

/* `by_rip`: looks at the threads' own registers, too. */
static struct error *search_threads(struct patch_search *search, struct stop *stop, bool by_rip,
				    bool *ret_found)
{
	struct error *err = stack_scan_stacks(search->scan, stop);
	bool found = false;

	if (err)
		return err;
	for (size_t i = 0; by_rip && i < stop_thread_count(stop); i++)
		found |= stack_scan_find_thread(search->scan, stop_thread_rip(stop, i).v,
						stop_thread_rsp(stop, i).v) ||
			 stack_scan_find(search->scan, stop_thread_rsp(stop, i).v);
	for (size_t i = 0; i < search->count; i++)
		found |= search->list[i].hit;
	*ret_found = found;
	return NULL;
}

struct error *patch_search_threads(struct patch_search *search, struct stop *stop, bool *ret_found)
{
	return search_threads(search, stop, true, ret_found);
}

static struct error *find_threads(struct proc *proc, struct stop *stop,
				  const struct patch_range *ranges, size_t count, bool by_rip,
				  bool *ret_found)
{
	_cleanup_(patch_search_end) struct patch_search search = { 0 };
	struct error *err = patch_search_begin(&search, proc, ranges, count);

	return err ? err : search_threads(&search, stop, by_rip, ret_found);
}

struct error *patch_find_threads(struct proc *proc, struct stop *stop,
				 const struct patch_range *ranges, size_t count, bool *ret_found)
{
	return find_threads(proc, stop, ranges, count, true, ret_found);
}

struct error *patch_find_frames(struct proc *proc, struct stop *stop,
				const struct patch_range *ranges, size_t count, bool *ret_found)
{
	return find_threads(proc, stop, ranges, count, false, ret_found);
}
