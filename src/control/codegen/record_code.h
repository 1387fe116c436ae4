/*
 * record_code.h - the pieces of recording code that entry trampolines and exits share.
 *
 * Each writes to the emitter; what they use and leave in registers is said beside them.
 * trampoline.c draws the stack.
 */
#ifndef DYNTRACE_RECORD_CODE_H
#define DYNTRACE_RECORD_CODE_H

#include "tramp_env.h"

struct record_labels {
	struct label reserve, out, slow;
};

/* rax, rcx, rdx, rbx and the flags: 40 bytes, below the red zone if that is to be kept. */
void record_emit_save(struct emitter *e, bool keep_red_zone);
void record_emit_restore(struct emitter *e, bool keep_red_zone);
/* ebx = offset in the pool of the event's end, rdx = clock. rcx is the slot, before and after; rax
 * is lost. l->reserve is bound by the caller: here, or where it loads more from the slot. */
void record_emit_reserve(struct emitter *e, uint32_t size, struct record_labels *l);
/* rbx = the event, of its end. Not of what cmpxchg says was there before: that comes some cycles
 * later. rax is lost. */
void record_emit_place(struct emitter *e, const struct tramp_env *env, uint32_t size);
/* A field of the event at rbx. `frame` bytes lie between rsp here and what record_emit_save pushed,
 * `saved` bytes between rsp here and rsp at the site. rax is lost. */
void record_emit_field(struct emitter *e, int32_t frame, int32_t saved,
		       const struct tramp_field *field);
/* Where a word of struct dt_state is. */
taddr record_state_word(const struct tramp_env *env, size_t offset);
/* To `out` in a forked child, where those aren't traced. rax is lost. */
void record_emit_own_only(struct emitter *e, const struct tramp_env *env, struct label *out);
/* Calls dt_slow for the event in eax: rcx = slot or 0; rax, rdx, rbx are lost. */
void record_emit_slow_call(struct emitter *e, const struct tramp_env *env, uint32_t size);

#endif
