/*
 * waypoints.h - threads between a site and its trampoline (patch_site.waypoint). Private to patch/.
 */
#ifndef DYNTRACE_WAYPOINTS_H
#define DYNTRACE_WAYPOINTS_H

#include "stack_scan.h"
#include "sites.h"

struct waypoints {
	struct stack_scan_range *ranges; /* `owner`: the index of the site */
	size_t count; /* 0: no site has a waypoint */
	struct stack_scan scan;
};

/* Before the stop: collects the waypoints of the sites. */
struct error *waypoints_begin(struct waypoints *waypoints, struct proc *proc,
			      const struct sites *sites);
void waypoints_end(struct waypoints *waypoints);

/* The waypoint at this address; NULL: none. */
const struct stack_scan_range *waypoints_find(const struct waypoints *waypoints, taddr address);

/* While all threads are held: sets `hit` of the waypoints that a signal handler will return to, and
 * clears it of the others. */
struct error *waypoints_scan(struct waypoints *waypoints, struct stop *stop);

#endif
