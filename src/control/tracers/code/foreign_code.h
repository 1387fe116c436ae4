/*
 * foreign_code.h - the part of a trampoline that calls a function of somebody else's in the target:
 * the event is laid out on the stack, as the pool would have it (an *image*), and the function gets
 * it.
 *
 * Pure: writes the emitter, or the buffer it is given.
 */
#ifndef DYNTRACE_FOREIGN_CODE_H
#define DYNTRACE_FOREIGN_CODE_H

#include "control/codegen/tramp_env.h"

/* Which registers the gate saves beside the general ones. */
enum foreign_state {
	FOREIGN_NOTHING,
	FOREIGN_LOW, /* xmm0 to xmm15: the site's module knows of no others */
	FOREIGN_VECTORS, /* all there are */
};

/* The same on this machine. */
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

/* Where gates begin to run, from their start. */
#define FOREIGN_GATE_ENTRY 8u

/* A gate (foreign_gate.S) to `bytes`, for this machine; `inside` is where the target counts the
 * threads in it. 0: no room. */
size_t foreign_write_gate(enum foreign_state state, taddr inside, uint8_t *bytes, size_t room);

/* The most bytes that these add to a trampoline. */
size_t foreign_room(const struct tramp_event *event);

struct foreign_labels;

/* Behind record_emit_save, of which rsp at the site is `saved` bytes away: to `out` if nobody wants
 * it, else the call. rax, rcx, rdx, rbx are lost. */
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
/* The code that the tracepoint's return stubs go on to. */
void foreign_emit_exit(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event);

#endif
