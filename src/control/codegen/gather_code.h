/*
 * gather_code.h - the part of a trampoline that has the agent write the event: every register into
 * a struct dt_regs on the stack, dt_gather, and all put back.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_GATHER_CODE_H
#define DYNTRACE_GATHER_CODE_H

#include "tramp_env.h"

/* The most bytes that it adds to a trampoline, the program included. */
size_t gather_room(const struct tramp_event *event);

/*
 * With the duration in rdx at an exit. `image` bytes lie between rsp here and what record_emit_save
 * pushed, where the event is written; 0: in the pool. `saved` bytes lie between rsp here and rsp at
 * the site. Leaves rax = 1: the event was written; 0: not. *ret_field: where gather_emit_program
 * fills in the way to the program.
 */
void gather_emit_call(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, int32_t image, int32_t saved,
		      size_t *ret_field);
/* The program itself, as data. */
void gather_emit_program(struct emitter *e, const struct tramp_event *event, size_t field);

#endif
