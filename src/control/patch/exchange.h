/*
 * exchange.h - replace old sites by new ones in the same stop. Private to patch/.
 *
 * The old sites of a group (patch_site.group) go when the new ones come, or neither happens (P7).
 * Threads in old trampolines are left there: the trampolines lead behind the old site, or are
 * redirected (P8). A thread between an old site and its trampoline is moved into the trampoline.
 */
#ifndef DYNTRACE_EXCHANGE_H
#define DYNTRACE_EXCHANGE_H

#include "groups.h"
#include "pages.h"
#include "waypoints.h"
#include "sites.h"

struct exchange {
	struct proc *proc;
	struct sites old; /* PATCH_PLACED, with a group */
	struct sites new; /* all sites to place; borrowed */
	struct groups old_groups, new_groups;
	const char **busy; /* per new site: why it has to wait; borrowed */
	struct pages *pages; /* borrowed */
	struct waypoints waypoints; /* of the old sites */
};

/* `new`: of `all`, the sites to place. */
struct error *exchange_begin(struct exchange *x, struct proc *proc, struct patch_site *const *all,
			     size_t count, const struct sites *new);
void exchange_end(struct exchange *x);

/* Old and new sites, by address. Caller frees. NULL: out of memory. */
struct patch_site **exchange_list(const struct exchange *x, size_t *ret_count);

/* Does the group have old sites? */
bool exchange_has_old(const struct exchange *x, unsigned group);
/* The old sites that the new site overlaps, all of its group, by address: exchange_old_at from
 * *at = 0 on; NULL: no more. */
const struct patch_site *exchange_old_at(const struct exchange *x, const struct patch_site *site,
					 size_t *at);

/* Turns the bytes at the new site now into those without the old sites of its group. */
void exchange_overlay(const struct exchange *x, const struct patch_site *site, uint8_t *bytes);

/*
 * Is the old site a trap on an instruction of several bytes? A thread whose RIP, now or in a signal
 * frame, is behind the first byte can only have run into the trap. The handler finds the trampoline
 * as long as the site isn't freed, whatever the text holds by then: so the thread is left as it is.
 */
bool exchange_is_quiet_trap(const struct patch_site *old);

/* In the stop, after pages_read: fails the groups whose old sites have changed (P2). */
void exchange_check(struct exchange *x);
/* Delays the new sites of groups with an old waypoint that a signal handler will return to. */
struct error *exchange_find_busy(struct exchange *x, struct stop *stop);
/* Makes groups fail or wait as a whole (P7). */
void exchange_level(struct exchange *x);

/* Moves a thread at an old site's waypoint to the old trampoline, if that site goes now.
 * *ret_at_waypoint: the thread is, or was, at a waypoint. */
struct error *exchange_move(struct exchange *x, struct stop *stop, size_t thread,
			    bool *ret_at_waypoint);
bool exchange_is_waypoint(const struct exchange *x, taddr rip);

/* Restores the old sites' bytes: of sites that lead through other sites (`dependents`), or of the
 * other sites. pages_write writes them. */
struct error *exchange_restore(struct exchange *x, bool dependents);
/* Undoes groups that couldn't be written; the old sites of all others are PATCH_REMOVED then. */
struct error *exchange_settle(struct exchange *x);

#endif
