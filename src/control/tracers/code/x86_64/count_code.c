/*
 * Each CPU has a row of counts, found by its number, which rdpid reads in a cycle or two. On
 * processors without rdpid a hash of the thread's FS base chooses the row. Any row gives the same
 * sum.
 */
#include "control/tracers/code/count_code.h"

#include <cpuid.h>

#include "shared/layout.h"
#include "control/exits/code/exit_code.h"
#include "control/codegen/filter_code.h"
#include "control/codegen/gather_code.h"
#include "control/codegen/record_code.h"

#define CELL(field) ((int32_t)offsetof(struct dt_cell, field))
#define EXIT_ROOM 640
#define STUB_START ((int32_t)offsetof(struct dt_return_slot, start))
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

void count_emit_hit(struct emitter *e, const struct tramp_env *env, const struct tramp_count *count,
		    struct label *out)
{
	if (count->own_only)
		record_emit_own_only(e, env, out);
	emit_find_cell(e, count);
	emit_note(e, "one more hit");
	emit_lock_inc_mem(e, mem_at(RBX, CELL(hits)));
}

/* ---- exits ----------------------------------------------------------------------------------- */

/* rcx = cycles since the call began; rdx = clock. */
static void emit_duration(struct emitter *e)
{
	struct label forward = { 0 };

	emit_mov(e, RCX, RDX);
	emit_sub_mem(e, RCX, mem_at(RSI, STUB_START));
	emit_jcc_short(e, CC_AE, &forward);
	emit_mov_imm(e, RCX, 0); /* another CPU's clock */
	emit_bind(e, &forward);
}

struct count_labels {
	struct label unrecorded, raise, raised, nested, outermost, busy, alone, back, out;
};

/*
 * rcx = duration, rsi = the stub's slot. Adds to the cell's total the time that only this call had
 * its function on the stack, and marks the time as spent for the calls around (struct
 * dt_return_times). The stub must not be free yet: a signal handler's call would take it, with its
 * times. rax, rdx are lost.
 */
static void emit_count_times(struct emitter *e, struct count_labels *l)
{
	emit_load(e, RDX, mem_at(RSI, (int32_t)DT_TIMES_AT(within_before)));
	emit_load(e, RAX, mem_at(RSI, (int32_t)DT_TIMES_AT(within)));
	emit_add(e, RDX, RCX);
	emit_sub_mem(e, RDX, mem_at(RAX, 0));
	emit_add_mem(e, mem_at(RAX, 0), RDX);
	emit_lock_add_mem(e, mem_at(RBX, CELL(total)), RDX);
	emit_alu(e, ALU_SUB, RDX, RCX);
	emit_jcc(e, CC_NE, &l->nested);
	emit_bind(e, &l->outermost);
	emit_load(e, RAX, mem_at(RSI, (int32_t)DT_TIMES_AT(covered)));
	emit_load(e, RDX, mem_at(RAX, 0));
	emit_sub_mem(e, RDX, mem_at(RSI, (int32_t)DT_TIMES_AT(covered_before)));
	emit_jcc(e, CC_NE, &l->busy);
	emit_bind(e, &l->alone);
	emit_load(e, RDX, mem_at(RSI, (int32_t)DT_TIMES_AT(covered_before)));
	emit_add(e, RDX, RCX);
	emit_store(e, mem_at(RAX, 0), RDX);
}

/* Out of line: rdx = less the durations of calls of the same function inside; durations of all
 * calls inside. */
static void emit_count_nested(struct emitter *e, struct count_labels *l)
{
	emit_bind(e, &l->nested);
	emit_not(e, RDX);
	emit_add_imm(e, RDX, 1);
	emit_lock_add_mem(e, mem_at(RBX, CELL(again)), RDX);
	emit_jmp(e, &l->outermost);
	emit_bind(e, &l->busy);
	emit_lock_add_mem(e, mem_at(RBX, CELL(inside)), RDX);
	emit_jmp(e, &l->alone);
}

/*
 * Swaps the duration in rcx with the pending one, and counts that one, in its bucket by
 * histogram_bucket: a store whose address depends on a clock that was just read would make all
 * later instructions wait for the clock. rax, rcx are lost.
 */
static void emit_count_duration(struct emitter *e, struct count_labels *l)
{
	emit_lea(e, RAX, mem_at(RCX, 1));
	emit_xchg(e, mem_at(RBX, CELL(pending)), RAX);
	emit_add_imm(e, RAX, -1);
	emit_jcc(e, CC_S, &l->out); /* the first: none was pending */
	emit_mov(e, RCX, RAX);
	emit_cmp_mem(e, RCX, mem_at(RBX, CELL(max)));
	emit_jcc(e, CC_A, &l->raise);
	emit_bind(e, &l->raised);
	emit_mov(e, RAX, RCX);
	emit_or_imm(e, RCX, 1 << DT_BUCKET_BITS);
	emit_bsr(e, RCX, RCX);
	emit_add_imm(e, RCX, -DT_BUCKET_BITS);
	emit_shr_cl(e, RAX);
	emit_shl_imm(e, RCX, DT_BUCKET_BITS);
	emit_add(e, RAX, RCX);
	emit_lock_inc_mem(e, mem_index(RBX, RAX, 8, CELL(buckets)));
}

/* Out of line: the duration in rcx is the longest so far. rax is lost. */
static void emit_raise(struct emitter *e, struct label *raise, struct label *raised)
{
	struct label again = { 0 };

	emit_bind(e, raise);
	emit_bind(e, &again);
	emit_load(e, RAX, mem_at(RBX, CELL(max)));
	emit_alu(e, ALU_CMP, RAX, RCX);
	emit_jcc(e, CC_AE, raised); /* another CPU's was longer */
	emit_lock_cmpxchg(e, mem_at(RBX, CELL(max)), RCX);
	emit_jcc(e, CC_NE, &again);
	emit_jmp(e, raised);
}

/* Jumps to `back` if the condition refuses the exit. Stores the cycles over the entry's clock,
 * which is no longer needed. All four registers are lost. */
static void emit_exit_condition(struct emitter *e, const struct tramp_env *env,
				const struct tramp_event *event, struct label *back,
				size_t *ret_field)
{
	emit_duration(e);
	exit_emit_duration(e, env);
	emit_store(e, mem_at(RSI, (int32_t)DT_KEPT_AT(DT_KEPT_DURATION)), RAX);
	emit_store(e, mem_at(RSI, STUB_START), RCX);
	if (event->program) {
		int32_t image = (int32_t)DT_ROUND_UP(event->program->size_max, 16);

		emit_mov(e, RDX, RAX);
		emit_lea(e, RSP, mem_at(RSP, -image));
		gather_emit_call(e, env, event, image, EXIT_RA + image, ret_field);
		emit_lea(e, RSP, mem_at(RSP, image));
		emit_or(e, RAX, RAX);
		emit_jcc(e, CC_E, back);
	}
	if (event->filter)
		filter_emit(e, event->filter, EXIT_RA, true, back);
}

void count_emit_exit(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event)
{
	struct count_labels l = { 0 };
	size_t program_field = 0;

	emit_note(e, "the function returns: find the stub");
	exit_emit_row(e, 0);
	emit_push(e, RSI);
	record_emit_save(e, false);
	emit_note(e, "the clock, first: other work can run beside it");
	record_emit_clock(e);
	exit_emit_identify(e, env, &l.unrecorded);
	exit_emit_fresh(e, env, event->id, &l.unrecorded, &l.back);
	emit_note(e, "the duration");
	if (event->at_exit)
		emit_exit_condition(e, env, event->at_exit, &l.back, &program_field);
	emit_find_cell(e, &event->count);
	if (event->at_exit)
		emit_load(e, RCX, mem_at(RSI, STUB_START));
	else
		emit_duration(e);
	emit_note(e, "time on the stack; time of the calls inside");
	emit_count_times(e, &l);
	emit_note(e, "the stub is free again");
	exit_emit_give_back(e, env);
	emit_note(e, "the previous duration: the longest, and its bucket");
	emit_count_duration(e, &l);
	emit_bind(e, &l.out);
	record_emit_restore(e, false);
	emit_pop(e, RSI);
	emit_ret(e);
	exit_emit_row(e, EXIT_RA);
	emit_raise(e, &l.raise, &l.raised);
	emit_count_nested(e, &l);
	emit_bind(e, &l.unrecorded);
	exit_emit_unrecorded(e, env);
	emit_bind(e, &l.back);
	exit_emit_give_back(e, env);
	emit_jmp(e, &l.out);
	if (event->at_exit && event->at_exit->program)
		gather_emit_program(e, event->at_exit, program_field);
}
