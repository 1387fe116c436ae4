/*
 * unwinding.h - the unwind tables of all modules, in the target: for backtraces.
 */
#ifndef DYNTRACE_UNWINDING_H
#define DYNTRACE_UNWINDING_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

struct unwinding {
	bool mapped;
	VEC(uint32_t) tables; /* offsets in the code memfd */
	VEC(char *) loaded; /* module_describe of all modules */
};

bool unwinding_create(struct session *session);
void unwinding_free(struct session *session);
/* Tables of all modules that have none yet, by way of a held thread. */
struct error *unwinding_map(struct session *session, struct stop *stop);
/* The list of modules has changed: those that came get tables, those that went have none any more. */
struct error *unwinding_follow(struct session *session, const struct modules *gone, bool is_new);

#endif
