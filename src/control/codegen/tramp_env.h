/*
 * tramp_env.h - the addresses in the target that generated code uses.
 */
#ifndef DYNTRACE_TRAMP_ENV_H
#define DYNTRACE_TRAMP_ENV_H

#include "control/code/emit.h"
#include "control/event/tramp_event.h"

struct tramp_env {
	taddr control;
	taddr slots; /* dt_state.slots */
	taddr pool;
	struct emit_notes *notes; /* comments on the code, for --explain; NULL: not wanted */
	/* with exits only: struct dt_returns, stub 0, the code that records exits */
	taddr returns, stubs, exit;
	uint64_t ns_multiplier; /* with exits only: ns = cycles * this >> 32 */
};

#endif
