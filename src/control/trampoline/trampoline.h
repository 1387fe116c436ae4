/*
 * trampoline.h - the code that one site jumps to.
 *
 * A trampoline is generated for one site: per instruction of the site, a recording sequence for
 * each tracepoint there, then the moved instruction; at the end a jump back. The code restores
 * everything that it changes: at any instruction every register and the flags may be live (H1).
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
	/* Results: */
	/* the start of each instruction (with its recording sequences), and of the jump back */
	taddr copies[TRAMP_INSNS_MAX + 1];
	/* the jump back, whose distance can be changed by one store (P8); 0: the last instruction
	 * doesn't fall through */
	taddr back;
	size_t size;
};

/* May tramp_event.routine be set (with an exit: and tramp_event.taking)? */
bool trampoline_can_share(const struct tramp_event *event);
/* The kind of the routine (shared_code.h). */
uint32_t trampoline_shares(const struct tramp_event *event);
/* Writes a routine of that kind, to run at `pc`. */
bool trampoline_emit_shared(const struct tramp_env *env, uint32_t kind, uint8_t *bytes, size_t room,
			    taddr pc, size_t *ret_size);

/* The most bytes that trampoline_emit needs. */
size_t trampoline_room(const struct tramp *tramp);

/* Writes the trampoline to `bytes`, to run at `pc`. Fails with ERROR_REFUSED when an instruction
 * can't be moved there. */
struct error *trampoline_emit(struct tramp *tramp, const struct tramp_env *env, uint8_t *bytes,
			      size_t room, taddr pc);

#endif
