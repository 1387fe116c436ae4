/*
 * foreign_code.h - the part of a trampoline that calls a C function in the target which is not the
 * agent's. The function gets the event as an *image*: on the stack, laid out as in the pool.
 *
 * Pure: writes the emitter, or the buffer it is given.
 */
#ifndef DYNTRACE_FOREIGN_CODE_H
#define DYNTRACE_FOREIGN_CODE_H

#include "control/codegen/tramp_env.h"

/* The registers that the gate saves beside the general ones. */
enum foreign_state {
	FOREIGN_NOTHING,
	FOREIGN_LOW, /* xmm0 to xmm15: the site's module uses no others */
	FOREIGN_VECTORS, /* all of the machine */
};

/* The registers that these are on this machine. */
enum foreign_saves {
	FOREIGN_SAVES_NONE,
	FOREIGN_SAVES_XMM,
	FOREIGN_SAVES_YMM,
	FOREIGN_SAVES_ZMM,
	FOREIGN_SAVES_ZMM_BW
};
enum foreign_saves foreign_choose(enum foreign_state state);

/* The most bytes that a gate takes. */
#define FOREIGN_GATE_ROOM 2048u

/* The offset of a gate's first instruction. */
#define FOREIGN_GATE_ENTRY 8u

/* Writes a gate (foreign_gate.S) for this machine; `inside` is the target's count of the threads in
 * it. Returns its size; 0: no room. */
size_t foreign_write_gate(enum foreign_state state, taddr inside, uint8_t *bytes, size_t room);

/* The most bytes that these add to a trampoline. */
size_t foreign_room(const struct tramp_event *event);

struct foreign_labels;

/* After record_emit_save: the call, or jumps to `out` while the event is not recorded. `saved`:
 * bytes between the saved registers and rsp at the site. rax, rcx, rdx, rbx are lost. */
void foreign_emit_hit(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, int32_t saved, struct foreign_labels *l,
		      struct label *out);
/* Out of line. */
void foreign_emit_slow(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event, struct foreign_labels *l,
		       struct label *out);
/* Data. `saved` as above. */
void foreign_emit_data(struct emitter *e, const struct tramp_event *event, int32_t saved,
		       const struct foreign_labels *l);
/* The code that the tracepoint's return stubs jump to. */
void foreign_emit_exit(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event);

#endif
