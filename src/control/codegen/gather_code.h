/*
 * gather_code.h - the part of a trampoline that has the agent write the event: stores every
 * register in a struct dt_regs on the stack, calls dt_gather, and restores them.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_GATHER_CODE_H
#define DYNTRACE_GATHER_CODE_H

#include "tramp_env.h"

/* The most bytes that gathering adds to a trampoline, including the program. */
size_t gather_room(const struct tramp_event *event);

/* The bytes of the program's stack that it needs below rsp, for an event in the pool. */
int32_t gather_stack(const struct tramp_event *event);

/*
 * Reads the last word of the program's stack that gathering will use, at the entry and at the exit.
 * Where the stack overflows, the fault comes from the trampoline, before anything is recorded, and
 * can be shown as the program's own (H30): dt_gather has no rows that tell which registers it has
 * changed. After record_emit_save; rax is lost.
 */
void gather_emit_touch(struct emitter *e, const struct tramp_event *event);

/*
 * At an exit rdx is the duration. `image`: bytes on the stack between rsp and the saved registers
 * (record_code.h), to which the event is written; 0: it is written to the pool. `saved`: bytes
 * between rsp here and rsp at the site. Leaves rax = 1 if the event was written, else 0.
 * *ret_field: where gather_emit_program fills in the distance to the program.
 */
void gather_emit_call(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, int32_t image, int32_t saved,
		      size_t *ret_field);
/* Like gather_emit_call, for an event in the pool. The trampoline writes such an event itself where
 * it can (read_code.h). Jumps to `no` if none was written. rax is lost. */
void gather_emit_event(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event, int32_t saved, bool at_exit,
		       struct label *no, size_t *ret_field);
/*
 * The same for values beside a return stub (R10): rbx is the image's address, rcx is kept, and rsi
 * of the program is at rsp + `rsi_at`.
 */
void gather_emit_beside(struct emitter *e, const struct tramp_env *env,
			const struct tramp_event *event, int32_t saved, int32_t rsi_at,
			size_t *ret_field);
/* Before gather_emit_program: another place that needs the distance. */
void gather_emit_distance(struct emitter *e, size_t field);
/* The program itself, as data. */
void gather_emit_program(struct emitter *e, const struct tramp_event *event, size_t field);

#endif
