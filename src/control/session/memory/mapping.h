/*
 * mapping.h - map memory in the target: the agent, windows for trampolines, memory of tracers and
 * exits.
 *
 * Steps that need no held thread are done before one is held.
 */
#ifndef DYNTRACE_MAPPING_H
#define DYNTRACE_MAPPING_H

#include "control/session/state/session_state.h"

/* Memory to map, through one borrowed thread. */
struct mapping_wants {
	bool agent, exits, unwind, tracers;
	const struct tracepoint_list *list;
};

/* Maps it, and windows for all planned sites. `held` as in session_begin. */
struct error *mapping_make(struct session *session, const struct mapping_wants *wants,
			   struct stop *held);

/* Notes the length of a stop of the target. */
void mapping_note_stop(struct session *session, uint64_t us);

#endif
