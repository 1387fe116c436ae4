/*
 * record_code.h - the pieces of recording code that entry trampolines and exits share.
 *
 * Each writes to the emitter; its comment names the registers that it uses, sets and loses.
 *
 * The stack after record_emit_save, which most generated code relies on:
 *
 *	rsp+40	the program's stack; 128 bytes further up where the red zone may be in use
 *	rsp+32	rax
 *	rsp+24	rcx
 *	rsp+16	rdx
 *	rsp+8	rbx
 *	rsp	ah = flags as lahf gives them, al = the overflow flag (H2)
 *
 * The order of loads and stores in record_emit_reserve is the protocol of layout.h (B2 to B4). No
 * code may read from the slot after its cmpxchg: a signal handler that forks just there comes back
 * in a child whose slots are wiped. A write to the slot is harmless then.
 */
#ifndef DYNTRACE_RECORD_CODE_H
#define DYNTRACE_RECORD_CODE_H

#include "tramp_env.h"

struct record_labels {
	struct label reserve, out, slow;
};

#define RECORD_SAVED_SIZE 40 /* bytes, without the red zone */

/* Saves rax, rcx, rdx, rbx and the flags, below the red zone if that is to be kept. */
void record_emit_save(struct emitter *e, bool keep_red_zone);
void record_emit_restore(struct emitter *e, bool keep_red_zone);
/* The offset of a saved register from rsp; -1: it isn't saved, and still holds the program's. */
int32_t record_saved_at(enum reg reg);
/* rdx = clock; rax is lost. */
void record_emit_clock(struct emitter *e);
/* ebx = the event's end as an offset in the pool, rdx = clock. rcx is the slot, before and after;
 * rax is lost. The caller binds l->reserve: right before, or where it loads more from the slot. */
void record_emit_reserve(struct emitter *e, uint32_t size, struct record_labels *l);
/* rbx = the event's address, computed from its end in ebx: the old value that cmpxchg returns comes
 * some cycles later. rax is lost. */
void record_emit_place(struct emitter *e, const struct tramp_env *env, uint32_t size);
/* Writes a field of the event at rbx. `frame`: bytes between rsp here and the saved registers.
 * `saved`: bytes between rsp here and rsp at the site. rax is lost. */
void record_emit_field(struct emitter *e, int32_t frame, int32_t saved,
		       const struct tramp_field *field);
/* The address of a word of struct dt_state. */
taddr record_state_word(const struct tramp_env *env, size_t offset);
/* Jumps to `out` in a forked child; for tracepoints that don't trace children. rax is lost. */
void record_emit_own_only(struct emitter *e, const struct tramp_env *env, struct label *out);
/* Calls dt_slow for the event in eax: rcx = slot or 0; rax, rdx, rbx are lost. */
void record_emit_slow_call(struct emitter *e, const struct tramp_env *env, uint32_t size);

#endif
