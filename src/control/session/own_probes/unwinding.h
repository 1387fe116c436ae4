/*
 * unwinding.h - put the unwind tables of all modules into the target, for backtraces.
 */
#ifndef DYNTRACE_UNWINDING_H
#define DYNTRACE_UNWINDING_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

struct unwinding {
	bool mapped;
	VEC(uint32_t) tables; /* offsets in the code memfd */
	VEC(char *) loaded; /* results of module_describe, for the trace */
};

bool unwinding_create(struct session *session);
void unwinding_free(struct session *session);
/* Maps tables for all modules that have none yet, through a held thread. */
struct error *unwinding_map(struct session *session, struct stop *stop);
/* After a change of the list of modules: maps tables for loaded ones, retracts those of `gone`. */
struct error *unwinding_follow(struct session *session, const struct modules *gone, bool is_new);

#endif
