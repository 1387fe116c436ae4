/*
 * shared_code.h - code that trampolines call instead of having it themselves.
 *
 * Trampolines of plain events differ in their fields and their id alone. What comes before, from
 * the thread's slot to the event's place in the pool, is one routine per size of event, within
 * reach of the trampolines (near_pool_find_shared). Those of entries with exits call a second one,
 * which takes the return stub. A routine is never freed before its memory is: a thread may be in
 * it.
 *
 * (U3) The routine pushes nothing: while a thread is in it, the word at its stack pointer is its
 *      return address, in the trampoline that called it. So whoever frees trampolines finds the
 *      one that the thread returns to (patch_range.is_called), and unwinders do (DT_FRAME_RETURNS).
 * (U4) At that return address stands the instruction whose last 4 bytes are the event's id
 *      (emit_or_long_imm): the slow path, which alone needs the id before, reads it there.
 * (U5) A lost event is written, too: to dt_state.sink. So nothing behind the call asks whether the
 *      event is lost, but the choice of a return stub: such a call gets none.
 */
#ifndef DYNTRACE_SHARED_CODE_H
#define DYNTRACE_SHARED_CODE_H

#include "tramp_env.h"

#define SHARED_ROOM 448 /* bytes of a routine, at most */

/* Kinds of routines: a size of events, which is a multiple of 8; with SHARED_EXIT, for entries of
 * that size with an exit; SHARED_STUB: takes a return stub (exit_stub.h). */
#define SHARED_EXIT 1u
#define SHARED_STUB 2u
/* Where the trampoline of an entry with an exit keeps the clock, from rsp. */
#define SHARED_CLOCK_AT 40

/* Can events of that size be lost in dt_state.sink? */
bool shared_is_for(uint32_t size);

/*
 * Writes the routine for such events, to run at pc: rbx = the event's address, rdx = its header
 * without the id, rcx = 0 if the event is lost. rax and the flags are lost. Called after
 * record_emit_save. With SHARED_EXIT, also rsi = the thread's table of stubs, and the clock is
 * kept.
 */
bool shared_emit(const struct tramp_env *env, uint32_t kind, uint8_t *bytes, size_t room, taddr pc,
		 size_t *ret_size);

/* Writes the call, and the instruction that adds the id (U4): rbx = the event's address, rdx = its
 * header. `id`: with the pending mark, if the event has fields. */
void shared_emit_call(struct emitter *e, taddr routine, uint32_t id);

#endif
