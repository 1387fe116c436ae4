/*
 * leave_points.h - the instructions by which a function's calls end: its `ret`s, and jumps out of
 * it.
 *
 * Only for functions whose code is known completely: every instruction between its bounds is
 * decoded, and how it is reached is known. Addresses are the process's.
 */
#ifndef DYNTRACE_LEAVE_POINTS_H
#define DYNTRACE_LEAVE_POINTS_H

#include "plan.h"

struct leave_point {
	taddr address;
	uint32_t kind; /* DT_SITE_RETURN or DT_SITE_JUMP */
};

struct leave_points {
	struct leave_point *items;
	size_t count, room;
};

/* Fails with ERROR_REFUSED and the reason. The caller frees. */
struct error *leave_points_find(struct planner *planner, const struct place *place,
				struct leave_points *ret_points);
void leave_points_free(struct leave_points *points);

#endif
