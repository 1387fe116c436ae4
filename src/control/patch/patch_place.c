/*
 * patch_place: write planned sites.
 *
 * One try, in order:
 *   1. prepare pages, ranges and mappings, and have the kernel copy the pages, while the target
 *      still runs;
 *   2. stop all threads (P1);
 *   3. check the bytes (P2), the stacks (P4) and the threads (P3);
 *   4. write RIPs, then pages, then the sites that cross a page boundary, one by one (H14);
 *   5. read the target's bytes again: they alone decide which sites are placed.
 *
 * Sites that lead through bytes of other sites are written in a second pass, when the other sites
 * are placed (P6).
 *
 * "Inside a site" means behind its first byte and before the end of the changed bytes: bytes that
 * the patch leaves as they were can be run and returned to.
 *
 * A thread whose system call the kernel will restart continues two bytes before its RIP. So it is
 * inside a site also when only that `syscall` is. It moves to the copy all the same, where a
 * `syscall` stands before the boundary too.
 */
#include "patch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/proc/patience.h"
#include "control/remote/unfit.h"
#include "control/stop/stop.h"
#include "exchange.h"
#include "redirect.h"
#include "pages.h"
#include "stack_scan.h"
#include "sites.h"

#define TRIES_MAX 20
#define PAUSE_MAX_MS 50
/* More tries follow, with longer pauses, for threads that want to run and don't get to. */
#define PATIENCE_MS 10000
#define LATE_PAUSE_MAX_MS 800
#define SYSCALL_SIZE 2

struct batch {
	struct proc *proc;
	struct stop *stop; /* holds all threads; NULL: nothing may be written (P1) */
	struct sites sites;
	struct exchange exchange;
	struct redirect redirect;
	struct pages pages;
	struct maps maps; /* as they were before the stop */
	struct stack_scan scan;
	/* the inside of sites.items[owner], without the bytes where threads run into an old trap */
	struct stack_scan_range *ranges;
	size_t range_count;
	const char **busy; /* per site: why it has to wait; NULL: no reason */
	bool second_pass; /* writes the sites that lead through bytes of other sites */
};

static void batch_free(struct batch *batch)
{
	exchange_end(&batch->exchange);
	redirect_end(&batch->redirect);
	sites_free(&batch->sites);
	pages_free(&batch->pages);
	maps_free(&batch->maps);
	stack_scan_end(&batch->scan);
	free(batch->ranges);
	free(batch->busy);
}

/* ---- preparation ---------------------------------------------------------------------------- */

static bool is_private(const struct maps *maps, taddr at)
{
	const struct mapping *mapping = maps_find(maps, at);

	return mapping && !mapping->shared;
}

static void check_mapping(const struct batch *batch, struct patch_site *site)
{
	const struct maps *maps = &batch->maps;
	taddr last = taddr_add(site->address, site->length - 1);

	if (!maps_find(maps, site->address) || !maps_find(maps, last))
		sites_fail(site, PATCH_FAILED,
			   error_new(ERROR_REFUSED, "0x%lx is no longer mapped",
				     site->address.v));
	else if (!is_private(maps, site->address) || !is_private(maps, last))
		sites_fail(site, PATCH_FAILED,
			   error_new(ERROR_REFUSED,
				     "the code at 0x%lx is in a shared mapping, which can't be "
				     "patched for one process alone",
				     site->address.v));
}

static struct error *create_pages(struct batch *batch)
{
	size_t count;
	_cleanup_free_ struct patch_site **list = exchange_list(&batch->exchange, &count);

	return list ? pages_create(list, count, &batch->pages) :
		      error_new(ERROR_FAILED, "out of memory");
}

/* Adds the inside of a site, without the bytes behind the traps that the site replaces. */
static void add_ranges(struct batch *batch, size_t index)
{
	const struct patch_site *site = batch->sites.items[index], *old;
	size_t changed = sites_changed(site);
	struct stack_scan_range range = { .start = site->address.v + 1,
				    .end = site->address.v + (changed ? changed : 1),
				    .owner = index };

	for (size_t at = 0; (old = exchange_old_at(&batch->exchange, site, &at));) {
		uint64_t behind = old->address.v + 1;

		if (!exchange_is_quiet_trap(old) || behind < range.start || behind >= range.end)
			continue;
		batch->ranges[batch->range_count] = range;
		batch->ranges[batch->range_count++].end = behind;
		range.start = behind + 1;
	}
	batch->ranges[batch->range_count++] = range;
	assert(batch->range_count <= batch->sites.count + batch->exchange.old.count);
}

static struct error *batch_begin(struct proc *proc, struct patch_site *const *all, size_t count,
				 struct batch *batch)
{
	struct error *err = sites_collect(all, count, PATCH_PLANNED, &batch->sites);
	size_t n = batch->sites.count;

	batch->proc = proc;
	if (!err)
		err = exchange_begin(&batch->exchange, proc, all, count, &batch->sites);
	if (!err)
		err = redirect_begin(&batch->redirect, all, count);
	batch->ranges = calloc(n + batch->exchange.old.count + 1, sizeof(*batch->ranges));
	batch->busy = calloc(n + 1, sizeof(*batch->busy));
	if (!err && (!batch->ranges || !batch->busy))
		err = error_new(ERROR_FAILED, "out of memory");
	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		add_ranges(batch, i);
	batch->exchange.busy = batch->busy;
	batch->exchange.pages = &batch->pages;
	err = create_pages(batch);
	if (!err)
		err = stack_scan_begin(&batch->scan, proc, batch->ranges, batch->range_count);
	if (!err)
		err = maps_read(proc, &batch->maps);
	for (size_t i = 0; !err && i < n; i++)
		check_mapping(batch, batch->sites.items[i]);
	return err;
}

/* ---- the stop ------------------------------------------------------------------------------- */

/* Is the site to be written in this pass? */
static bool is_ready(const struct batch *batch, size_t index)
{
	const struct patch_site *site = batch->sites.items[index];

	return site->state == PATCH_PLANNED && !batch->busy[index] &&
	       batch->second_pass == (site->after != NULL) &&
	       (!site->after || site->after->state == PATCH_PLACED);
}

/* (P2) Fails a site whose bytes are not those it was planned from. */
static void check_site(struct batch *batch, struct patch_site *site)
{
	const uint8_t *now = pages_of_site(&batch->pages, site);
	uint8_t bytes[DT_SITE_BYTES];

	if (now)
		memcpy(bytes, now, site->length);
	exchange_overlay(&batch->exchange, site, bytes);
	if (now && !memcmp(bytes, site->original, site->length))
		return;
	sites_fail(site, PATCH_FAILED,
		   error_new(ERROR_REFUSED,
			     now ? "the code at 0x%lx has changed since it was read"
				 : "0x%lx is no longer mapped",
			     site->address.v));
}

static void check_bytes(struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (batch->sites.items[i]->state == PATCH_PLANNED)
			check_site(batch, batch->sites.items[i]);
	}
}

/* (P6) Makes a site whose `after` isn't placed wait, or fail with it. */
static void judge_dependents(struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		struct patch_site *site = batch->sites.items[i];

		if (site->state != PATCH_PLANNED || !site->after)
			continue;
		if (site->after->state == PATCH_PLACED)
			check_site(batch, site); /* the pages were read again */
		else if (site->after->state == PATCH_PLANNED)
			batch->busy[i] = "the code that its jump goes through is in use";
		else
			sites_fail(site, PATCH_FAILED,
				   error_new(ERROR_REFUSED,
					     "the code at 0x%lx, which its jump needs, cannot be "
					     "changed",
					     site->after->address.v));
	}
}

/* The range of the site that the thread is inside of, and its offset there; NULL: none. */
static const struct stack_scan_range *range_of_thread(const struct batch *batch, size_t thread,
						      uint64_t *offset)
{
	const struct stop *stop = batch->stop;
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

/* (P8) Fails sites that old trampolines can't be redirected to. */
static void check_redirects(struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		struct patch_site *site = batch->sites.items[i];
		const char *refusal = NULL;

		if (site->state == PATCH_PLANNED)
			refusal = redirect_refusal(&batch->redirect, site);
		if (refusal)
			sites_fail(site, PATCH_FAILED, error_new(ERROR_REFUSED, "%s", refusal));
	}
}

/* (P4) Delays sites that a stack points into, or that hold a thread which can't be moved. */
static struct error *find_busy(struct batch *batch)
{
	struct error *err = stack_scan_stacks(&batch->scan, batch->stop);

	if (err)
		return err;
	for (size_t i = 0; i < batch->range_count; i++) {
		if (batch->ranges[i].hit)
			batch->busy[batch->ranges[i].owner] = "a stack holds an address inside it";
	}
	for (size_t i = 0; i < stop_thread_count(batch->stop); i++) {
		uint64_t offset;
		const struct stack_scan_range *range = range_of_thread(batch, i, &offset);

		if (exchange_is_waypoint(&batch->exchange, stop_thread_rip(batch->stop, i)))
			continue;
		if (range && !sites_move(batch->sites.items[range->owner], offset))
			batch->busy[range->owner] = "a thread is inside it";
	}
	err = exchange_find_busy(&batch->exchange, batch->stop);
	exchange_level(&batch->exchange);
	return err;
}

/* (P3) Moves threads inside a site to its copy. */
static struct error *move_threads(struct batch *batch)
{
	for (size_t i = 0; i < stop_thread_count(batch->stop); i++) {
		uint64_t offset;
		const struct stack_scan_range *range = range_of_thread(batch, i, &offset);
		const struct patch_move *move;
		bool at_waypoint;
		struct error *err = exchange_move(&batch->exchange, batch->stop, i, &at_waypoint);

		if (err)
			return err;
		if (!range || at_waypoint || !is_ready(batch, range->owner))
			continue;
		move = sites_move(batch->sites.items[range->owner], offset);
		assert(move); /* P3: find_busy has delayed the site otherwise */
		err = stop_thread_set_rip(batch->stop, i, move->copy);
		if (err)
			return err;
	}
	return NULL;
}

static void check_ready(const struct batch *batch)
{
	assert(batch->stop); /* P1 */
	for (size_t i = 0; i < batch->range_count; i++) /* P4 */
		assert(!batch->ranges[i].hit || !is_ready(batch, batch->ranges[i].owner));
}

/* Puts a site's bytes into the pages; for a site that crosses, only checks. */
static void put_site(struct batch *batch, const struct patch_site *site)
{
	assert(!memcmp(pages_of_site(&batch->pages, site), site->original, site->length)); /* P2 */
	assert(!site->after || site->after->state == PATCH_PLACED); /* P6 */
	pages_put(&batch->pages, site, site->patched);
}

static struct error *write_sites(struct batch *batch)
{
	struct error *err = NULL;

	check_ready(batch);
	if (!batch->second_pass && batch->exchange.waypoints.count) {
		err = exchange_restore(&batch->exchange, true);
		if (!err)
			err = pages_write(&batch->pages, batch->proc);
	}
	if (!err && !batch->second_pass)
		err = exchange_restore(&batch->exchange, false);
	if (err)
		return err;
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (is_ready(batch, i))
			put_site(batch, batch->sites.items[i]);
	}
	err = pages_write(&batch->pages, batch->proc);
	for (size_t i = 0; !err && i < batch->sites.count; i++) {
		const struct patch_site *site = batch->sites.items[i];

		if (is_ready(batch, i) && pages_crosses(site))
			err = mem_write(batch->proc, site->address, site->patched, site->length);
	}
	return err;
}

/* Sets the site's state by what the target holds. `failure`: the error of the write, if any. */
static void settle_site(struct batch *batch, struct patch_site *site, const char *failure)
{
	const uint8_t *now = pages_of_site(&batch->pages, site);

	if (now && !memcmp(now, site->patched, site->length)) {
		site->state = PATCH_PLACED;
		return;
	}
	/* The threads are still held. The bytes of old sites may be there still: only the exchange
	 * knows what the text was. Else a first part was written, or nobody knows. */
	site->torn = exchange_has_old(&batch->exchange, site->group);
	if (!site->torn && (!now || memcmp(now, site->original, site->length) != 0)) {
		_cleanup_error_ struct error *unclear =
			mem_write(batch->proc, site->address, site->original, site->length);

		if (unclear) { /* H32: patch_remove looks again */
			site->state = PATCH_PLACED;
			return;
		}
	}
	sites_fail(site, PATCH_FAILED,
		   error_new(ERROR_FAILED, "the code at 0x%lx cannot be written: %s",
			     site->address.v, failure));
}

static struct error *place_pass(struct batch *batch)
{
	_cleanup_error_ struct error *failure = NULL;
	struct error *err = move_threads(batch);

	if (err)
		return err;
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (is_ready(batch, i))
			redirect_apply(&batch->redirect, batch->sites.items[i]);
	}
	failure = write_sites(batch);
	err = pages_read_changed(&batch->pages, batch->proc);
	if (err && error_kind(err) == ERROR_GONE)
		return err;
	error_free(err); /* settle_site restores what can't be read */
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (is_ready(batch, i))
			settle_site(batch, batch->sites.items[i],
				    failure ? error_text(failure) : "the bytes did not change");
	}
	return NULL;
}

static bool has_dependents(const struct batch *batch)
{
	for (size_t i = 0; i < batch->sites.count; i++) {
		if (batch->sites.items[i]->after)
			return true;
	}
	return false;
}

static struct error *place_held(struct batch *batch)
{
	struct error *err = pages_read(&batch->pages, batch->proc);

	if (err)
		return err;
	exchange_check(&batch->exchange);
	check_bytes(batch);
	check_redirects(batch);
	err = find_busy(batch);
	if (!err)
		err = place_pass(batch);
	if (!err && has_dependents(batch)) {
		judge_dependents(batch);
		batch->second_pass = true;
		err = place_pass(batch);
	}
	if (!err)
		err = exchange_settle(&batch->exchange);
	redirect_undo(&batch->redirect);
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

		if (site->state != PATCH_PLANNED)
			continue;
		assert(batch->busy[i]);
		sites_fail(site, PATCH_FAILED,
			   error_new(ERROR_REFUSED, "the code at 0x%lx is in use: %s",
				     site->address.v, batch->busy[i]));
	}
}

/* *ret_again: some sites had to be put off. */
static struct error *place_try(struct proc *proc, struct stop *held,
			       struct patch_site *const *sites, size_t count,
			       const struct patch_also *also, bool last, bool *ret_again,
			       struct patch_stats *stats)
{
	_cleanup_(batch_free) struct batch batch = { .stop = held };
	uint64_t us = 0;
	struct error *err = batch_begin(proc, sites, count, &batch);

	*ret_again = false;
	if (err || !has_planned(&batch))
		return err;
	if (!held) {
		pages_unshare(&batch.pages, proc, &batch.maps);
		err = stop_all_or_quit(proc, STOP_TIMEOUT_MS, &batch.stop);
	}
	if (!err && also)
		err = also->run(also->data, batch.stop); /* P9 */
	if (!err)
		err = place_held(&batch);
	if (!held)
		stop_release(batch.stop, &us);
	batch.stop = NULL;
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

static unsigned longer_ms(unsigned ms, unsigned tries)
{
	unsigned most = tries < TRIES_MAX ? PAUSE_MAX_MS : LATE_PAUSE_MAX_MS;

	return 2 * ms < most ? 2 * ms : most;
}

/* How long a site in use is waited for. */
struct tries {
	struct patience patience; /* from the end of the first one on */
	unsigned count;
};

static void tries_end(struct tries *tries)
{
	patience_free(&tries->patience);
}

/* Is the next try the last one? */
static bool is_last(struct tries *tries, const struct proc *proc)
{
	if (++tries->count == 2)
		patience_begin(&tries->patience, proc, 0, PATIENCE_MS);
	return tries->count >= TRIES_MAX && patience_ends(&tries->patience, proc);
}

struct error *patch_place(struct proc *proc, struct stop *held, struct patch_site **sites,
			  size_t count, const struct patch_also *also,
			  struct patch_stats *ret_stats)
{
	_cleanup_(tries_end) struct tries tries = { 0 };
	struct patch_stats stats = { 0 };
	unsigned unfit = 0;
	bool again = true;
	struct error *err = NULL;

	for (unsigned ms = 1; !err && again; ms = longer_ms(ms, tries.count)) {
		bool last = held || is_last(&tries, proc);

		do
			err = place_try(proc, held, sites, count, tries.count > 1 ? NULL : also,
					last, &again, &stats);
		while (!held && unfit_try_again(&err, &unfit)); /* `also` has changed nothing */
		if (!err && again)
			pause_ms(ms);
	}
	for (size_t i = 0; i < count; i++) {
		stats.placed += sites[i]->state == PATCH_PLACED;
		stats.failed += sites[i]->state == PATCH_FAILED;
	}
	*ret_stats = stats;
	return err;
}
