/*
 * static_points.h - what the target's files mark for tracers themselves: static markers (SDT), and
 * static tracepoints of LTTng-UST. dyntrace places nothing for them here.
 */
#ifndef DYNTRACE_STATIC_POINTS_H
#define DYNTRACE_STATIC_POINTS_H

#include "control/session/state/session_state.h"

/* Notices for markers and static tracepoints of libraries that were loaded since the last call. No
 * thread of the target may wait meanwhile: files are read. */
void static_points_tell(struct session *session);

/* One static tracepoint of LTTng. */
struct static_point {
	char *name; /* PROVIDER:NAME */
	char *arguments;
	char *module; /* the file's name */
	uint64_t address;
};

struct static_points {
	struct static_point *items;
	size_t count, room;
};

/* Lists LTTng's static tracepoints in the target, without those of LTTng-UST itself, in every
 * process that has it. Files that can't be read are left out. The caller frees. */
struct error *static_points_list(struct session *session, struct static_points *ret_points);
void static_points_free(struct static_points *points);

#endif
