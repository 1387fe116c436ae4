/*
 * By hash, the slot's address depends on the FS base, which takes long to read. Everything else
 * that an entry with an exit does depends on the slot: the event's place, the thread's table of
 * stubs, the stub. The processor can't keep so many waiting instructions beside two clock readings.
 * So such an entry guesses the slot by rsp and goes on with the guess; the FS base is only
 * compared. A wrong guess costs as much as the hash, and corrects the guess.
 */
#include "control/codegen/slot_code.h"

#include "shared/layout.h"

#define SLOT(field) ((int32_t)offsetof(struct dt_slot, field))
/* The distance from the slots to the guesses. */
#define NEAR ((int32_t)(offsetof(struct dt_state, near) - offsetof(struct dt_state, slots)))

/* rcx = a slot that has this thread's key. Jumps to `no` if the slot was another thread's, which
 * had the same thread block. rbx is lost. */
static void emit_check_tid(struct emitter *e, struct label *no)
{
	emit_note(e, "the thread block's tid must be the slot's");
	emit_load(e, RBX, mem_at(RCX, SLOT(tid_offset)));
	emit_load32(e, RBX, mem_fs(RBX, 0));		/* the thread block's own tid */
	emit_cmp_mem32(e, RBX, mem_at(RCX, SLOT(tid)));
	emit_note(e, "if not: the slot is another thread's");
	emit_jcc(e, CC_NE, no);
}

void slot_emit_find(struct emitter *e, const struct tramp_env *env, struct label *slow)
{
	emit_note(e, "the thread's FS base");
	emit_rdfsbase(e, RDX);
	emit_note(e, "hash it");
	emit_imul_imm(e, RCX, RDX, DT_HASH_MULTIPLIER);
	emit_shr_imm(e, RCX, DT_HASH_SHIFT);
	emit_and_imm32(e, RCX, DT_HASH_MASK);
	emit_note(e, "rcx = the slot, in their table");
	emit_mov_imm(e, RAX, env->slots.v);
	emit_add(e, RCX, RAX);
	emit_note(e, "the slot's key must be its complement");
	emit_not(e, RDX);
	emit_cmp_mem(e, RDX, mem_at(RCX, SLOT(key)));
	emit_note(e, "if not: the agent finds the slot");
	emit_jcc(e, CC_NE, slow);
	emit_check_tid(e, slow);
}

void slot_emit_table(struct emitter *e)
{
	emit_load32(e, RSI, mem_at(RCX, SLOT(returns)));
}

/* rax = slots, rdx = an index: the guess for this stack is at rax + 4 * rdx + NEAR. */
static void emit_find_guess(struct emitter *e, const struct tramp_env *env)
{
	emit_mov(e, RDX, RSP);
	emit_shr_imm(e, RDX, DT_NEAR_SHIFT);
	emit_and_imm32(e, RDX, DT_NEAR_COUNT - 1);
	emit_mov_imm(e, RAX, env->slots.v);
}

void slot_emit_near(struct emitter *e, const struct tramp_env *env, struct slot_labels *l)
{
	emit_note(e, "guess the thread: the last one seen on this part of the stack");
	emit_find_guess(e, env);
	emit_load32(e, RCX, mem_index(RAX, RDX, 4, NEAR));
	emit_add(e, RCX, RAX);
	emit_note(e, "the slot's key must be the complement of its FS base");
	emit_rdfsbase(e, RDX);
	emit_not(e, RDX);
	emit_cmp_mem(e, RDX, mem_at(RCX, SLOT(key)));
	emit_note(e, "if not: find the slot by hash");
	emit_jcc(e, CC_NE, &l->far);
	emit_check_tid(e, &l->far);
	emit_bind(e, &l->found);
}

void slot_emit_far(struct emitter *e, const struct tramp_env *env, struct slot_labels *l,
		   struct label *slow)
{
	emit_bind(e, &l->far);
	slot_emit_find(e, env, slow);
	emit_note(e, "remember the thread for this part of the stack");
	emit_find_guess(e, env);
	emit_mov(e, RBX, RCX);
	emit_alu(e, ALU_SUB, RBX, RAX);
	emit_store32(e, mem_index(RAX, RDX, 4, NEAR), RBX);
	emit_jmp(e, &l->found);
}
