/*
 * count_code.c
 *
 * The row is the CPU's by its number, which rdpid reads in a cycle or two; where the processor doesn't have it, that
 * of the thread's FS base. Which row doesn't matter for the sum.
 */
#include "count_code.h"

#include <cpuid.h>

#include "../../shared/layout.h"
#include "exit_code.h"
#include "record_code.h"

#define CELL(field) ((int32_t)offsetof(struct dt_cell, field))
#define EXIT_ROOM 512
#define LEAF_FEATURES 7
#define RDPID_BIT (1u << 22) /* in ecx */

size_t count_room(const struct tramp_event *event)
{
	return event->count.cell.v && event->exit ? EXIT_ROOM : 0;
}

static bool has_rdpid(void)
{
	unsigned a, b, c = 0, d;

	return __get_cpuid_count(LEAF_FEATURES, 0, &a, &b, &c, &d) && (c & RDPID_BIT);
}

/* rbx = the cell in this CPU's row; rcx is lost. */
static void emit_find_cell(struct emitter *e, const struct tramp_count *count)
{
	emit_note(e, "this CPU's row of counts");
	emit_mov_imm(e, RBX, count->cell.v);
	if (!count->row_mask)
		return;
	if (has_rdpid()) {
		emit_rdpid(e, RCX);
	} else {
		emit_rdfsbase(e, RCX);
		emit_imul_imm(e, RCX, RCX, DT_HASH_MULTIPLIER);
		emit_shr_imm(e, RCX, DT_HASH_SHIFT);
	}
	emit_and_imm32(e, RCX, count->row_mask);
	emit_shl_imm(e, RCX, count->row_shift);
	emit_add(e, RBX, RCX);
}

static taddr state_word(const struct tramp_env *env, size_t offset)
{
	return taddr_add(env->slots, (int64_t)offset - (int64_t)offsetof(struct dt_state, slots));
}

/* A forked child's state is wiped, or says that it is muted. */
static void emit_own_only(struct emitter *e, const struct tramp_env *env, struct label *out)
{
	_Static_assert(offsetof(struct dt_state, muted) == offsetof(struct dt_state, pid) + 4, "one word");
	emit_note(e, "not in forked children");
	emit_mov_imm(e, RAX, state_word(env, offsetof(struct dt_state, pid)).v);
	emit_load(e, RAX, mem_at(RAX, 0));
	emit_add_imm(e, RAX, -1);			/* no pid: borrows     */
	emit_shr_imm(e, RAX, 32);
	emit_jcc(e, CC_NE, out);
}

void count_emit_hit(struct emitter *e, const struct tramp_env *env, const struct tramp_count *count,
		    struct label *out)
{
	if (count->own_only)
		emit_own_only(e, env, out);
	emit_find_cell(e, count);
	emit_note(e, "one more hit");
	emit_lock_inc_mem(e, mem_at(RBX, CELL(hits)));
}

/* ---- exits --------------------------------------------------------------------------------------- */

/* rax = cycles since the call began; rdx is lost. */
static void emit_duration(struct emitter *e)
{
	struct label forward = { 0 };

	emit_rdtsc(e);
	emit_shl_imm(e, RDX, 32);
	emit_or(e, RAX, RDX);
	emit_sub_mem(e, RAX, mem_at(RSI, (int32_t)offsetof(struct dt_return_slot, start)));
	emit_jcc_short(e, CC_AE, &forward);
	emit_mov_imm(e, RAX, 0); /* another CPU's clock */
	emit_bind(e, &forward);
}

/* The bucket of rax cycles, as histogram_bucket has it, gets one more; rax, rcx are lost. */
static void emit_bucket(struct emitter *e)
{
	emit_mov(e, RCX, RAX);
	emit_or_imm(e, RCX, 1 << DT_BUCKET_BITS);
	emit_bsr(e, RCX, RCX);
	emit_add_imm(e, RCX, -DT_BUCKET_BITS);
	emit_shr_cl(e, RAX);
	emit_shl_imm(e, RCX, DT_BUCKET_BITS);
	emit_add(e, RAX, RCX);
	emit_lock_inc_mem(e, mem_index(RBX, RAX, 8, CELL(buckets)));
}

/* Out of line: a duration in rax that is the longest so far. */
static void emit_raise(struct emitter *e, struct label *raise, struct label *raised)
{
	struct label again = { 0 };

	emit_bind(e, raise);
	emit_mov(e, RDX, RAX);
	emit_bind(e, &again);
	emit_load(e, RAX, mem_at(RBX, CELL(max)));
	emit_alu(e, ALU_CMP, RAX, RDX);
	emit_mov(e, RCX, RDX);
	emit_jcc(e, CC_AE, raised); /* another CPU's was longer */
	emit_lock_cmpxchg(e, mem_at(RBX, CELL(max)), RDX);
	emit_jcc(e, CC_NE, &again);
	emit_jmp(e, raised);
}

void count_emit_exit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event)
{
	struct label unrecorded = { 0 }, fresh = { 0 }, known = { 0 }, raise = { 0 }, raised = { 0 };
	struct label none = { 0 }, back = { 0 }, out = { 0 };

	emit_note(e, "the function returns: by which stub?");
	emit_push(e, RSI);
	record_emit_save(e, false);
	exit_emit_identify(e, env, &unrecorded);
	emit_note(e, "the first hit in a forked child? Then the call was its parent's");
	emit_mov_imm(e, RAX, state_word(env, offsetof(struct dt_state, pid)).v);
	emit_cmp_mem32_imm(e, mem_at(RAX, 0), 0);
	emit_jcc(e, CC_E, &fresh);
	emit_bind(e, &known);
	emit_note(e, "how long did it take?");
	emit_duration(e);
	emit_find_cell(e, &event->count);
	emit_lock_add_mem(e, mem_at(RBX, CELL(total)), RAX);
	emit_mov(e, RCX, RAX);
	emit_cmp_mem(e, RAX, mem_at(RBX, CELL(max)));
	emit_jcc(e, CC_A, &raise);
	emit_bind(e, &raised);
	emit_mov(e, RAX, RCX);
	emit_bucket(e);
	emit_bind(e, &back);
	emit_note(e, "the stub is free again");
	exit_emit_give_back(e, env);
	emit_bind(e, &out);
	record_emit_restore(e, false);
	emit_pop(e, RSI);
	emit_ret(e);
	emit_raise(e, &raise, &raised);
	emit_bind(e, &fresh);
	emit_mov_imm(e, RAX, event->id);
	record_emit_slow_call(e, env, 0);
	emit_jrcxz(e, &none);
	exit_emit_judge(e, &unrecorded);
	emit_jmp(e, &known);
	emit_bind(e, &unrecorded);
	exit_emit_unrecorded(e, env);
	emit_bind(e, &none);
	emit_jmp(e, &back);
}
