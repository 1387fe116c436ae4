/*
 * loading.h - what the tracers that call functions in the target share: the paper that libraries are
 * loaded by, and which gate a module needs.
 */
#ifndef DYNTRACE_LOADING_H
#define DYNTRACE_LOADING_H

#include "control/session/state/session_state.h"
#include "load.h"

#define LOADING_GATES 3 /* saves all vector registers, their lower halves, none */

/* A module that was looked at: does it use all of the vector registers (wide.h)? */
struct loading_module {
	uint64_t device, inode;
	bool is_wide;
};

struct loading {
	struct load_paper paper;
	VEC(struct loading_module) looked_at;
};

bool loading_create(struct session *session);
void loading_free(struct session *session);

/* Which gate is enough in the tracepoint's module: 0 or 1, as LOADING_GATES has them. */
size_t loading_gate(struct session *session, const struct tracepoint *tracepoint);
/* Can a function be called from there? Not where locks may be held that the function needs. */
struct error *loading_check_place(const struct tracepoint *tracepoint);

#endif
