/*
 * tramp_env.h - what generated code must know of the target: where our memory is there.
 */
#ifndef DYNTRACE_TRAMP_ENV_H
#define DYNTRACE_TRAMP_ENV_H

#include "control/code/emit.h"
#include "control/event/tramp_event.h"

/* Where the target has what trampolines use. */
struct tramp_env {
	taddr control;
	taddr slots; /* dt_state.slots */
	taddr pool;
	struct emit_notes *notes; /* wanted by who explains the code; NULL: not */
	/* with exits only: struct dt_returns, stub 0, the code that records */
	taddr returns, stubs, exit;
	uint64_t ns_multiplier; /* likewise: ns = cycles * this >> 32 */
};

#endif
