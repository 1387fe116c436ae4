/*
 * trampoline.h - the code that one site jumps to.
 *
 * Generated for that site and nothing else: for each tracepoint at each of its instructions a
 * recording sequence, then the moved instruction, at the end a jump back. What the code changes it
 * puts back: at any instruction every register and the flags may be live (H1).
 *
 * Pure: writes the buffer it is given.
 */
#ifndef DYNTRACE_TRAMPOLINE_H
#define DYNTRACE_TRAMPOLINE_H

#include "control/code/relocate.h"
#include "control/codegen/tramp_env.h"

#define TRAMP_INSNS_MAX 16

struct tramp {
	const struct insn *insns; /* moved, in order */
	size_t insn_count;
	struct tramp_event **events; /* sorted by insn */
	size_t event_count;
	/* Filled in: where each instruction (with what is recorded before it) begins, and the jump
	 * back. */
	taddr copies[TRAMP_INSNS_MAX + 1];
	/* filled in: that jump, whose distance can be changed by one store; 0: nothing falls
	 * through to there */
	taddr back;
	size_t size;
};

/* The most bytes that trampoline_emit needs for this one. */
size_t trampoline_room(const struct tramp *tramp);

/* Emits it to `bytes`, to run at `pc`. Fails with ERROR_REFUSED when an instruction can't be moved
 * there. */
struct error *trampoline_emit(struct tramp *tramp, const struct tramp_env *env, uint8_t *bytes,
			      size_t room, taddr pc);

#endif
