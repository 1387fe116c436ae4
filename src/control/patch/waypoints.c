#include "waypoints.h"

#include <stdlib.h>

struct error *waypoints_begin(struct waypoints *waypoints, struct proc *proc,
			      const struct sites *sites)
{
	struct error *err;

	waypoints->ranges = calloc(sites->count + 1, sizeof(*waypoints->ranges));
	if (!waypoints->ranges)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < sites->count; i++) {
		uint64_t at = sites->items[i]->waypoint.v;

		if (at)
			waypoints->ranges[waypoints->count++] =
				(struct stack_scan_range){ .start = at, .end = at + 1, .owner = i };
	}
	if (!waypoints->count)
		return NULL;
	err = stack_scan_begin(&waypoints->scan, proc, waypoints->ranges, waypoints->count);
	waypoints->scan.frames_only = true;
	return err;
}

void waypoints_end(struct waypoints *waypoints)
{
	stack_scan_end(&waypoints->scan);
	free(waypoints->ranges);
	*waypoints = (struct waypoints){ 0 };
}

const struct stack_scan_range *waypoints_find(const struct waypoints *waypoints, taddr address)
{
	return stack_scan_find(&waypoints->scan, address.v);
}

struct error *waypoints_scan(struct waypoints *waypoints, struct stop *stop)
{
	return waypoints->count ? stack_scan_stacks(&waypoints->scan, stop) : NULL;
}
