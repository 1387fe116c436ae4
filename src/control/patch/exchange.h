/*
 * exchange.h - sites that others take the place of, in the same stop. Private to patch/.
 *
 * The old sites of a group (patch_site.group) go when the new ones come, or neither happens.
 * Threads in old trampolines are left there: these end behind the old site, which the planner has
 * kept free of what new sites change. Threads that stand on the way to one are moved into it.
 */
#ifndef DYNTRACE_EXCHANGE_H
#define DYNTRACE_EXCHANGE_H

#include "pages.h"
#include "stack_scan.h"
#include "sites.h"

struct exchange {
	struct proc *proc;
	struct sites old; /* PATCH_PLACED, with a group */
	struct sites new; /* all that are to be placed; borrowed */
	const char **busy; /* of those; borrowed */
	struct pages *pages; /* borrowed */
	struct stack_scan waypoints; /* patch_site.waypoint of the old ones */
	struct stack_scan_range *via_ranges;
};

struct error *exchange_begin(struct exchange *x, struct proc *proc, struct patch_site *const *all,
			     size_t count);
void exchange_end(struct exchange *x);

/* Both generations, by address. Caller frees. NULL: out of memory. */
struct patch_site **exchange_list(const struct exchange *x, size_t *ret_count);

/* What the new site's bytes are once the old ones of its group are gone; `bytes` has what is there
 * now. */
void exchange_overlay(const struct exchange *x, const struct patch_site *site, uint8_t *bytes);

/*
 * A trap on an instruction of several bytes: a thread that stands behind the first of them, now or
 * in a signal frame, has run into it, and nobody else does. The handler finds its trampoline, as
 * long as the site isn't freed, whatever the text holds by then; so such a thread is left as it is.
 */
bool exchange_is_quiet_trap(const struct patch_site *old);

/* In the stop, when pages were read: new sites fail if old ones of theirs have changed (P2). */
void exchange_check(struct exchange *x);
/* New sites have to wait while a signal handler will return to where an old one leads first. */
struct error *exchange_find_busy(struct exchange *x, struct stop *stop);
/* A group fails or waits as a whole. */
void exchange_level(struct exchange *x);

/* Is the thread on the way into an old trampoline? Then it is moved there, if the old site goes
 * now. */
struct error *exchange_move(struct exchange *x, struct stop *stop, size_t thread,
			    bool *ret_is_there);
bool exchange_is_via(const struct exchange *x, uint64_t rip);

/* The old sites' bytes go back: of those that lead through others, or of the others. To be written
 * with the pages. */
struct error *exchange_restore(struct exchange *x, bool dependents);
/* What couldn't be written is undone; all others are PATCH_REMOVED. */
struct error *exchange_settle(struct exchange *x);

#endif
