/*
 * loading.h - what the tracers that call functions in the target share: the paper (load.h), and the
 * choice of a gate per module.
 */
#ifndef DYNTRACE_LOADING_H
#define DYNTRACE_LOADING_H

#include "control/session/state/session_state.h"
#include "load.h"

#define LOADING_GATES 3 /* save all vector registers, their lower halves, none */

/* A module's answer of wide_look. */
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

/* The cheapest gate that suffices in the tracepoint's module: 0 or 1, in the order of
 * LOADING_GATES. */
size_t loading_gate(struct session *session, const struct tracepoint *tracepoint);
/* Fails if a function can't be called from there, because locks that it needs may be held, or the
 * stack has no room for it. */
struct error *loading_check_place(struct session *session, const struct tracepoint *tracepoint);

#endif
