/*
 * One try, in order: what can be known without the target (pages, ranges, mappings); the stop; its
 * bytes (P2); its stacks (P4); its threads (P3); RIPs, then pages, then the sites that cross a page
 * boundary, one by one (H14); a look at what the target holds now, which alone decides what was
 * placed.
 *
 * Sites that lead through bytes of others have a second turn, when those are there (P6).
 *
 * "Inside a site" means behind its first byte and before the last byte that changes: what the patch
 * leaves as it was can be run and returned to.
 *
 * A thread whose system call the kernel will restart goes on two bytes before its RIP. So it is
 * inside also when only that `syscall` is; it moves to the copy all the same, where a `syscall`
 * lies before the boundary too.
 */
#include "patch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/stop/stop.h"
#include "exchange.h"
#include "redirect.h"
#include "pages.h"
#include "stack_scan.h"
#include "sites.h"

#define TRIES_MAX 20
#define PAUSE_MAX_MS 50
#define SYSCALL_SIZE 2

struct batch {
	struct proc *proc;
	struct sites sites;
	struct exchange exchange;
	struct redirect outs;
	struct pages pages;
	struct stack_scan scan;
	/* the inside of sites.items[owner], but for where threads are that ran into an old trap */
	struct stack_scan_range *ranges;
	size_t range_count;
	const char **busy; /* why this site has to wait; NULL: it needn't */
	bool second; /* the turn of those that lead through bytes of others */
};

static void batch_free(struct batch *batch)
{
	exchange_end(&batch->exchange);
	redirect_end(&batch->outs);
	sites_free(&batch->sites);
	pages_free(&batch->pages);
	stack_scan_end(&batch->scan);
	free(batch->ranges);
	free(batch->busy);
}

/* ---- before the stop ------------------------------------------------------------------------ */

static bool is_private(const struct maps *maps, taddr at)
{
	const struct mapping *mapping = maps_find(maps, at);

	return mapping && !mapping->shared;
}

static void check_mapping(const struct batch *batch, struct patch_site *site)
{
	const struct maps *maps = &batch->scan.maps;
	taddr last = taddr_add(site->address, site->length - 1);

	if (!maps_find(maps, site->address) || !maps_find(maps, last))
		sites_fail(site, PATCH_FAILED,
			   error_new(ERROR_REFUSED, "nothing is mapped at 0x%lx any more",
				     site->address.v));
	else if (!is_private(maps, site->address) || !is_private(maps, last))
		sites_fail(site, PATCH_FAILED,
			   error_new(ERROR_REFUSED,
				     "the code at 0x%lx is in a shared mapping, which can't be "
				     "patched for "
				     "one process alone",
				     site->address.v));
}

static struct error *create_pages(struct batch *batch)
{
	size_t count;
	_cleanup_free_ struct patch_site **list = exchange_list(&batch->exchange, &count);

	return list ? pages_create(list, count, &batch->pages) :
		      error_new(ERROR_FAILED, "out of memory");
}

/* Up to the end of what it changes, around the traps that it takes the place of. */
static void add_ranges(struct batch *batch, size_t index)
{
	const struct patch_site *site = batch->sites.items[index];
	size_t changed = sites_changed(site);
	struct stack_scan_range range = { .start = site->address.v + 1,
				    .end = site->address.v + (changed ? changed : 1),
				    .owner = index };

	for (size_t i = 0; i < batch->exchange.old.count; i++) { /* by address */
		const struct patch_site *old = batch->exchange.old.items[i];
		uint64_t behind = old->address.v + 1;

		if (!exchange_is_quiet_trap(old) || !site->group || old->group != site->group ||
		    behind < range.start || behind >= range.end)
			continue;
		batch->ranges[batch->range_count++] =
			(struct stack_scan_range){ .start = range.start, .end = behind, .owner = index };
		range.start = behind + 1;
	}
	batch->ranges[batch->range_count++] = range;
}

static struct error *batch_begin(struct proc *proc, struct patch_site *const *all, size_t count,
				 struct batch *batch)
{
	struct error *err = sites_collect(all, count, PATCH_PLANNED, &batch->sites);
	size_t n = batch->sites.count;

	batch->proc = proc;
	if (!err)
		err = exchange_begin(&batch->exchange, proc, all, count);
	if (!err)
		err = redirect_begin(&batch->outs, all, count);
	batch->ranges = calloc(n + batch->exchange.old.count + 1, sizeof(*batch->ranges));
	batch->busy = calloc(n + 1, sizeof(*batch->busy));
	if (!err && (!batch->ranges || !batch->busy))
		err = error_new(ERROR_FAILED, "out of memory");
	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		add_ranges(batch, i);
	batch->exchange.new = batch->sites;
	batch->exchange.busy = batch->busy;
	batch->exchange.pages = &batch->pages;
	err = create_pages(batch);
	if (!err)
		err = stack_scan_begin(&batch->scan, proc, batch->ranges, batch->range_count);
	for (size_t i = 0; !err && i < n; i++)
		check_mapping(batch, batch->sites.items[i]);
	return err;
}

/* ---- inside it ------------------------------------------------------------------------------ */

/* To be placed now? */
static bool is_ready(const struct batch *batch, size_t index)
{
	const struct patch_site *site = batch->sites.items[index];

	return site->state == PATCH_PLANNED && !batch->busy[index] &&
	       batch->second == (site->after != NULL) &&
	       (!site->after || site->after->state == PATCH_PLACED);
}

/* (P6) What leads through a site that isn't there: waits, or fails with it. */
static void judge_dependents(struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		struct patch_site *site = batch->sites.items[i];

		if (site->state != PATCH_PLANNED || !site->after ||
		    site->after->state == PATCH_PLACED)
			continue;
		if (site->after->state == PATCH_PLANNED)
			batch->busy[i] = "the code that its jump leads through is in use";
		else
			sites_fail(
				site, PATCH_FAILED,
				error_new(
					ERROR_REFUSED,
					"the code at 0x%lx, which its jump needs, can't be changed",
					site->after->address.v));
	}
}

/* (P2) */
static void check_bytes(struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		struct patch_site *site = batch->sites.items[i];
		const uint8_t *now = pages_of_site(&batch->pages, site);
		uint8_t bytes[DT_SITE_BYTES];

		if (now)
			memcpy(bytes, now, site->length);
		exchange_overlay(&batch->exchange, site, bytes);
		if (site->state != PATCH_PLANNED ||
		    (now && !memcmp(bytes, site->original, site->length)))
			continue;
		sites_fail(site, PATCH_FAILED,
			   error_new(ERROR_REFUSED,
				     now ? "the code at 0x%lx has changed since it was read"
					 : "nothing is mapped at 0x%lx any more",
				     site->address.v));
	}
}

/* The site that the thread is inside of, and how far; NULL: none. */
static const struct stack_scan_range *site_of_thread(const struct batch *batch, const struct stop *stop,
					       size_t thread, uint64_t *offset)
{
	uint64_t rip = stop_thread_rip(stop, thread).v;
	const struct stack_scan_range *range = stack_scan_find(&batch->scan, rip);

	if (!range && stop_thread_restarts(stop, thread))
		range = stack_scan_find(&batch->scan, rip - SYSCALL_SIZE);
	if (range && stop_thread_trapped(stop, thread))
		return NULL;
	if (range)
		*offset = rip - batch->sites.items[range->owner]->address.v;
	return range;
}

/* (P8) */
static void check_redirects(struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		struct patch_site *site = batch->sites.items[i];
		const char *refusal =
			site->state == PATCH_PLANNED ? redirect_refusal(&batch->outs, site) : NULL;

		if (refusal)
			sites_fail(site, PATCH_FAILED, error_new(ERROR_REFUSED, "%s", refusal));
	}
}

/* (P4), and threads at what is no instruction of ours */
static struct error *find_busy(struct batch *batch, struct stop *stop)
{
	struct error *err = stack_scan_stacks(&batch->scan, stop);

	if (err)
		return err;
	for (size_t i = 0; i < batch->range_count; i++) {
		if (batch->ranges[i].hit)
			batch->busy[batch->ranges[i].owner] = "a stack holds an address inside it";
	}
	for (size_t i = 0; i < stop_thread_count(stop); i++) {
		uint64_t offset;
		const struct stack_scan_range *range = site_of_thread(batch, stop, i, &offset);

		if (exchange_is_via(&batch->exchange, stop_thread_rip(stop, i).v))
			continue;
		if (range && !sites_move(batch->sites.items[range->owner], offset))
			batch->busy[range->owner] = "a thread is inside it";
	}
	err = exchange_find_busy(&batch->exchange, stop);
	exchange_level(&batch->exchange);
	return err;
}

/* (P3) */
static struct error *move_threads(struct batch *batch, struct stop *stop)
{
	for (size_t i = 0; i < stop_thread_count(stop); i++) {
		uint64_t offset;
		const struct stack_scan_range *range = site_of_thread(batch, stop, i, &offset);
		bool is_there;
		struct error *err = exchange_move(&batch->exchange, stop, i, &is_there);

		if (err)
			return err;
		if (!range || is_there || !is_ready(batch, range->owner))
			continue;
		err = stop_thread_set_rip(
			stop, i, sites_move(batch->sites.items[range->owner], offset)->copy);
		if (err)
			return err;
	}
	return NULL;
}

static struct error *write_sites(struct batch *batch)
{
	struct error *err = NULL;

	if (!batch->second && batch->exchange.waypoints.count) {
		err = exchange_restore(&batch->exchange, true);
		if (!err)
			err = pages_write(&batch->pages, batch->proc);
	}
	if (!err && !batch->second)
		err = exchange_restore(&batch->exchange, false);
	if (err)
		return err;
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (is_ready(batch, i))
			pages_put(&batch->pages, batch->sites.items[i],
				  batch->sites.items[i]->patched);
	}
	err = pages_write(&batch->pages, batch->proc);
	for (size_t i = 0; !err && i < batch->sites.count; i++) {
		const struct patch_site *site = batch->sites.items[i];

		if (is_ready(batch, i) && pages_crosses(site))
			err = mem_write(batch->proc, site->address, site->patched, site->length);
	}
	return err;
}

/* What the target holds decides. `failure`: what was said when it was written. */
static void settle_site(struct batch *batch, struct patch_site *site, const char *failure)
{
	const uint8_t *now = pages_of_site(&batch->pages, site);

	if (now && !memcmp(now, site->patched, site->length)) {
		site->state = PATCH_PLACED;
		return;
	}
	/* torn: the first part was written. The threads are still held. */
	if (now && memcmp(now, site->original, site->length) != 0)
		error_free(mem_write(batch->proc, site->address, site->original, site->length));
	sites_fail(site, PATCH_FAILED,
		   error_new(ERROR_FAILED, "the code at 0x%lx can't be written: %s",
			     site->address.v, failure));
}

static struct error *place_pass(struct batch *batch, struct stop *stop)
{
	_cleanup_error_ struct error *failure = NULL;
	struct error *err = move_threads(batch, stop);

	if (err)
		return err;
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (is_ready(batch, i))
			redirect_lead(&batch->outs, batch->sites.items[i]);
	}
	failure = write_sites(batch);
	err = pages_read(&batch->pages, batch->proc);
	for (size_t i = 0; !err && i < batch->sites.count; i++) {
		if (is_ready(batch, i))
			settle_site(batch, batch->sites.items[i],
				    failure ? error_text(failure) : "it isn't there after writing");
	}
	return err;
}

static bool has_dependents(const struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (batch->sites.items[i]->after)
			return true;
	}
	return false;
}

static struct error *place_held(struct batch *batch, struct stop *stop)
{
	struct error *err = pages_read(&batch->pages, batch->proc);

	if (err)
		return err;
	exchange_check(&batch->exchange);
	check_bytes(batch);
	check_redirects(batch);
	err = find_busy(batch, stop);
	if (!err)
		err = place_pass(batch, stop);
	if (!err && has_dependents(batch)) {
		judge_dependents(batch);
		batch->second = true;
		err = place_pass(batch, stop);
	}
	if (!err)
		err = exchange_settle(&batch->exchange);
	redirect_undo(&batch->outs);
	return err;
}

/* ---- tries ---------------------------------------------------------------------------------- */

static bool has_planned(const struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (batch->sites.items[i]->state == PATCH_PLANNED)
			return true;
	}
	return false;
}

static void give_up(struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		struct patch_site *site = batch->sites.items[i];

		if (site->state == PATCH_PLANNED)
			sites_fail(site, PATCH_FAILED,
				   error_new(ERROR_REFUSED, "the code at 0x%lx is in use: %s",
					     site->address.v, batch->busy[i]));
	}
}

/* *ret_again: some had to be put off. */
static struct error *place_try(struct proc *proc, struct stop *held,
			       struct patch_site *const *sites, size_t count, bool last,
			       bool *ret_again, struct patch_stats *stats)
{
	_cleanup_(batch_free) struct batch batch = { 0 };
	struct stop *stop = held;
	uint64_t us = 0;
	struct error *err = batch_begin(proc, sites, count, &batch);

	*ret_again = false;
	if (err || !has_planned(&batch))
		return err;
	if (!held)
		err = stop_all(proc, STOP_TIMEOUT_MS, &stop);
	if (!err)
		err = place_held(&batch, stop);
	if (!held)
		stop_release(stop, &us);
	if (us > stats->stopped_us)
		stats->stopped_us = us;
	if (err)
		return err;
	if (last)
		give_up(&batch);
	*ret_again = has_planned(&batch);
	return NULL;
}

static void pause_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

struct error *patch_place(struct proc *proc, struct stop *held, struct patch_site **sites,
			  size_t count, struct patch_stats *ret_stats)
{
	struct patch_stats stats = { 0 };
	bool again = true;
	struct error *err = NULL;

	for (unsigned tries = 1, ms = 1; !err && again; tries++) {
		bool last = held || tries == TRIES_MAX;

		err = place_try(proc, held, sites, count, last, &again, &stats);
		if (!err && again)
			pause_ms(ms);
		ms = 2 * ms < PAUSE_MAX_MS ? 2 * ms : PAUSE_MAX_MS;
	}
	for (size_t i = 0; i < count; i++) {
		stats.placed += sites[i]->state == PATCH_PLACED;
		stats.failed += sites[i]->state == PATCH_FAILED;
	}
	*ret_stats = stats;
	return err;
}
