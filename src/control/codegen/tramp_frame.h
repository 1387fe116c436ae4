/*
 * tramp_frame.h - unwinding from trampolines: the rows after each trampoline (src/shared/frame.h),
 * and the .eh_frame table that makes unwinders read them.
 *
 * Pure: writes the buffers it is given.
 */
#ifndef DYNTRACE_TRAMP_FRAME_H
#define DYNTRACE_TRAMP_FRAME_H

#include "shared/layout.h"
#include "control/code/emit.h"

/* The most bytes that rows add: per trampoline, per moved instruction, per event. */
#define TRAMP_FRAME_ROOM 48u
#define TRAMP_FRAME_INSN_ROOM 16u
#define TRAMP_FRAME_EVENT_ROOM 144u

/* The row's code for the place of rbx (DT_FRAME_KEPT), with `depth` bytes on the stack after
 * record_emit_save. */
uint8_t tramp_frame_kept(int32_t depth);

/* Writes the emitter's rows, after all code of the trampoline of `site`. Fails as the emitter
 * does. */
void tramp_frame_end(struct emitter *e, taddr site);
void tramp_frame_free(struct emit_rows *rows);

/*
 * Writes the table to control->frames, for a target that has its control page at `at`: a CIE with
 * all rules, an FDE for trampolines, and an FDE for the jumps that lead to them (a slot, a hop).
 */
bool tramp_frame_table(struct dt_control *control, taddr at);

#endif
