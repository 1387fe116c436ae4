/*
 * tramp_frame.h - unwinding from trampolines: the rows behind each (src/shared/frame.h), and the
 * table that leads unwinders through them.
 *
 * Pure: writes what it is given.
 */
#ifndef DYNTRACE_TRAMP_FRAME_H
#define DYNTRACE_TRAMP_FRAME_H

#include "shared/layout.h"
#include "control/code/emit.h"

/* What a trampoline needs more, at most: at all, for a moved instruction, for an event. */
#define TRAMP_FRAME_ROOM 48u
#define TRAMP_FRAME_INSN_ROOM 16u
#define TRAMP_FRAME_EVENT_ROOM 144u

/* Where rbx is while that many bytes are on the stack, as record_emit_save leaves them
 * (DT_FRAME_KEPT). */
uint8_t tramp_frame_kept(int32_t depth);

/* The emitter's rows, behind all else: the code stands for that of `site`. Fails as the emitter
 * does. */
void tramp_frame_end(struct emitter *e, taddr site);
void tramp_frame_free(struct emit_rows *rows);

/*
 * The table for a target whose control page is at `control`, to control->frames: a CIE with all
 * rules, an FDE for trampolines, one for the jumps that lead to them elsewhere (a slot, a hop).
 */
bool tramp_frame_table(struct dt_control *control, taddr at);
/* An FDE more, for unwinders that want to know the code's range: where it is in the target. 0:
 * there is no room for it. */
taddr tramp_frame_window(struct dt_control *control, taddr at, taddr start, uint64_t size);

#endif
