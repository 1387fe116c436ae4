/*
 * groups.h - sites by their group, so that a stop never walks all sites for one group. Private to
 * patch/.
 */
#ifndef DYNTRACE_GROUPS_H
#define DYNTRACE_GROUPS_H

#include "sites.h"

struct group_member {
	unsigned group; /* never 0 */
	size_t index; /* of the list that the groups were made of */
};

struct groups {
	struct group_member *items; /* sorted by group, then by index */
	size_t count;
};

/* The members of one group: items[first] to items[end - 1]. */
struct group_range {
	size_t first, end;
};

/* Of those sites of the list that have a group. The list must keep its order. */
struct error *groups_begin(struct groups *groups, struct patch_site *const *sites, size_t count);
void groups_end(struct groups *groups);

struct group_range groups_find(const struct groups *groups, unsigned group);

#endif
