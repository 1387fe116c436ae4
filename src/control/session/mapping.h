/*
 * mapping.h - memory in the target: the agent, windows for trampolines, what tracers and exits keep
 * there.
 *
 * Everything that needs no held thread is done before one is held (H17's limits are met where they
 * are found).
 */
#ifndef DYNTRACE_MAPPING_H
#define DYNTRACE_MAPPING_H

#include "control/session/state/session_state.h"

/* What has to be mapped, by way of one borrowed thread. */
struct mapping_wants {
	bool agent, exits, unwind, tracers;
	const struct tracepoint_list *list;
};

/* Maps it, and windows for all that the planner has decided. `held` as in session_begin. */
struct error *mapping_make(struct session *session, const struct mapping_wants *wants,
			   struct stop *held);

/* The target stood still for so long. */
void mapping_note_stop(struct session *session, uint64_t us);

#endif
