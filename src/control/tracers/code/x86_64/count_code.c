/*
 * Each CPU has a row of counts, found by its number, which rdpid reads in a cycle or two. On
 * processors without rdpid a hash of the thread's FS base chooses the row. Any row gives the same
 * sum.
 */
#include "control/tracers/code/count_code.h"

#include <cpuid.h>

#include "shared/keys.h"
#include "shared/layout.h"
#include "control/exits/code/exit_code.h"
#include "control/exits/code/exit_stub.h"
#include "control/codegen/filter_code.h"
#include "control/codegen/gather_code.h"
#include "control/codegen/read_code.h"
#include "control/codegen/record_code.h"

#define CELL(field) ((int32_t)offsetof(struct dt_cell, field))
#define EXIT_ROOM 896
#define KEY_ROOM 768 /* with a call of the agent */
#define DEMOTED_ROOM 128
#define TABLE(field) ((int32_t)offsetof(struct dt_key_table, field))
#define KEY_SLOT(field) ((int32_t)offsetof(struct dt_key_slot, field))
#define KEY_SLOT_SHIFT 4
#define TIMES(field) ((int32_t)DT_TIMES_AT(field))
#define STUB_START ((int32_t)offsetof(struct dt_return_slot, start))
#define LEAF_FEATURES 7
#define RDPID_BIT (1u << 22) /* in ecx */

size_t count_room(const struct tramp_event *event)
{
	const struct tramp_keys *keys = &event->count.keys;

	return (event->count.cell.v && event->exit ? EXIT_ROOM : 0) +
	       (event->demoted.cell.v ? DEMOTED_ROOM : 0) +
	       (event->judged.cell.v ? DEMOTED_ROOM : 0) +
	       (keys->capacity ? KEY_ROOM + filter_value_room(keys->native) : 0);
}

/* Made before any thread starts: in a virtual machine cpuid takes tens of microseconds. */
static bool has_rdpid;

__attribute__((constructor)) static void ask_for_rdpid(void)
{
	unsigned a, b, c = 0, d;

	has_rdpid = __get_cpuid_count(LEAF_FEATURES, 0, &a, &b, &c, &d) && (c & RDPID_BIT);
}

/* rbx = the cell in this CPU's row; rcx is lost. */
static void emit_find_cell(struct emitter *e, const struct tramp_count *count)
{
	emit_note(e, "this CPU's row of counts");
	emit_mov_imm(e, RBX, count->cell.v);
	if (!count->row_mask)
		return;
	if (has_rdpid) {
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

/* Goes from the tracepoint's cells to a key's; the index is at `index`. rax is lost. */
static void emit_find_key_cell(struct emitter *e, const struct tramp_keys *keys, struct mem index)
{
	emit_note(e, "the key's cell");
	emit_load32(e, RAX, index);
	emit_imul_imm(e, RAX, RAX, (int32_t)keys->stride);
	emit_add(e, RBX, RAX);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Raises the word at rbx + field to rdx. rax is lost. */
static void emit_raise_to(struct emitter *e, int32_t field)
{
	struct label again = { 0 }, done = { 0 };

	emit_bind(e, &again);
	emit_load(e, RAX, mem_at(RBX, field));
	emit_alu(e, ALU_CMP, RAX, RDX);
	emit_jcc_short(e, CC_AE, &done);
	emit_lock_cmpxchg(e, mem_at(RBX, field), RDX);
	emit_jcc(e, CC_NE, &again);
	emit_bind(e, &done);
}

/* Adds the value in rcx to the key's cell (struct dt_key_cell). rax, rcx, rdx are lost. */
static void emit_count_value(struct emitter *e)
{
	struct label positive = { 0 };

	emit_lock_add_mem(e, mem_at(RBX, CELL(total)), RCX);
	emit_mov_imm(e, RDX, DT_KEY_SIGN);
	emit_alu(e, ALU_XOR, RDX, RCX);
	emit_raise_to(e, CELL(max));
	emit_not(e, RDX);
	emit_raise_to(e, CELL(pending));
	emit_mov(e, RAX, RCX);
	emit_mov_imm(e, RDX, 0);
	emit_or(e, RCX, RCX);
	emit_jcc_short(e, CC_NS, &positive);
	emit_not(e, RAX);
	emit_add_imm(e, RAX, 1);
	emit_mov_imm(e, RDX, DT_KEY_BUCKETS);
	emit_bind(e, &positive);
	emit_mov(e, RCX, RAX);
	emit_or_imm(e, RCX, 1 << DT_KEY_BUCKET_BITS);
	emit_bsr(e, RCX, RCX);
	emit_add_imm(e, RCX, -DT_KEY_BUCKET_BITS);
	emit_shr_cl(e, RAX);
	emit_shl_imm(e, RCX, DT_KEY_BUCKET_BITS);
	emit_add(e, RAX, RCX);
	emit_add(e, RAX, RDX);
	emit_lock_inc_mem(e, mem_index(RBX, RAX, 8, CELL(buckets)));
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Has the agent find the key: ecx = its index, 0 if the agent can't. Jumps to `out` if the program
 * turns the hit away. Results stay in the image, which lies below rsp. */
static void emit_ask(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event, int32_t saved, size_t *ret_field,
		     struct label *out)
{
	int32_t image = (int32_t)DT_ROUND_UP(event->program->size_max, 16);
	struct read_ways ways = { .no = out };

	if (event->count.keys.value != VALUE_NUMBER && read_is_native_key(event, out))
		read_emit_key(e, env, event, saved, &ways);
	emit_note(e, "the agent finds the key, or adds it");
	emit_lea(e, RSP, mem_at(RSP, -image));
	emit_store_imm(e, mem_at(RSP, 0), 0);
	emit_store_imm(e, mem_at(RSP, 8), 0);
	gather_emit_call(e, env, event, image, saved + image, ret_field);
	emit_load32(e, RCX, mem_at(RSP, 0));
	emit_load(e, RDX, mem_at(RSP, 8));
	emit_lea(e, RSP, mem_at(RSP, image));
	if (out) {
		emit_or(e, RAX, RAX);
		emit_jcc(e, CC_E, out);
	}
	emit_bind(e, &ways.done);
}

/* ecx = the index of the key in rax; jumps to l->missing, with rbx = the slots, if it is new. */
static void emit_look_up(struct emitter *e, const struct tramp_keys *keys,
			 struct count_key_labels *l)
{
	struct label again = { 0 }, other = { 0 };

	emit_note(e, "find the key in the table");
	emit_mov_imm(e, RCX, DT_KEY_MULTIPLIER);
	emit_imul(e, RCX, RAX);
	emit_shr_imm(e, RCX, (uint8_t)(64 - keys->bits));
	emit_mov_imm(e, RBX, taddr_add(keys->table, TABLE(slots)).v);
	emit_bind(e, &again);
	emit_mov(e, RDX, RCX);
	emit_shl_imm(e, RDX, KEY_SLOT_SHIFT);
	emit_add(e, RDX, RBX);
	emit_cmp_mem(e, RAX, mem_at(RDX, KEY_SLOT(key)));
	emit_jcc_short(e, CC_NE, &other);
	emit_load32(e, RDX, mem_at(RDX, KEY_SLOT(index)));
	emit_or(e, RDX, RDX);
	emit_jcc(e, CC_E, &l->missing);
	emit_mov(e, RCX, RDX);
	emit_jmp(e, &l->found);
	emit_bind(e, &other);
	emit_cmp_mem32_imm(e, mem_at(RDX, KEY_SLOT(index)), 0);
	emit_jcc(e, CC_E, &l->missing);
	emit_add_imm(e, RCX, 1);
	emit_and_imm32(e, RCX, (int32_t)((1u << keys->bits) - 1));
	emit_jmp(e, &again);
}

/* Keeps the key's index in the word with the flags. */
static void emit_key(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event, int32_t saved, struct count_key_labels *l,
		     struct label *out)
{
	const struct tramp_keys *keys = &event->count.keys;

	if (keys->native) {
		filter_emit_value(e, keys->native, saved, false);
		emit_look_up(e, keys, l);
		emit_bind(e, &l->found);
	} else {
		emit_ask(e, env, event, saved, &l->program_field, keys->has_condition ? out : NULL);
	}
	emit_store32(e, mem_at(RSP, EXIT_KEY), RCX);
}

void count_emit_slow(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event, int32_t saved, struct count_key_labels *l,
		     struct label *out)
{
	const struct tramp_keys *keys = &event->count.keys;
	struct label ask = { 0 };

	if (!keys->table.v || !keys->native)
		return;
	emit_bind(e, &l->missing);
	emit_note(e, "no room for more keys: one of the others");
	emit_mov_imm(e, RCX, DT_KEY_OTHER);
	emit_cmp_mem32_imm(e, mem_at(RBX, TABLE(full) - TABLE(slots)), 0);
	emit_jcc(e, CC_E, &ask);
	emit_jmp(e, &l->found);
	emit_bind(e, &ask);
	emit_ask(e, env, event, saved, &l->program_field, NULL);
	emit_jmp(e, &l->found);
}

/* ---- hits ------------------------------------------------------------------------------------ */

void count_emit_hit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    int32_t saved, struct count_key_labels *l, struct label *out)
{
	const struct tramp_count *count = &event->count;
	bool is_keyed = count->keys.table.v && !count->keys.at_exit;

	if (count->own_only)
		record_emit_own_only(e, env, out);
	if (count->keys.table.v && count->keys.at_exit)
		return;
	if (is_keyed)
		emit_key(e, env, event, saved, l, out);
	emit_find_cell(e, count);
	if (is_keyed)
		emit_find_key_cell(e, &count->keys, mem_at(RSP, EXIT_KEY));
	emit_note(e, "one more hit");
	emit_lock_inc_mem(e, mem_at(RBX, CELL(hits)));
	if (!is_keyed || event->exit || count->keys.value != VALUE_NUMBER)
		return;
	emit_note(e, "its value");
	emit_mov(e, RCX, RDX);
	emit_count_value(e);
}

void count_emit_demoted(struct emitter *e, const struct tramp_env *env,
			const struct tramp_count *count, struct label *out)
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
	struct label unrecorded, raise, raised, nested, outermost, busy, alone, simple, back, out;
};

/* Adds to the cell's total the time that only this call had its function, with this key, on the
 * stack (struct dt_return_times). The key of an exit isn't known before: all of its time counts. */
static void emit_count_total(struct emitter *e, const struct tramp_keys *keys,
			     struct count_labels *l)
{
	bool keyed = keys->table.v != 0;

	if (keyed)
		emit_mov(e, RDX, RCX);
	if (!keyed || !keys->at_exit)
		emit_load(e, RAX, mem_at(RSI, TIMES(within)));
	if (keyed && !keys->at_exit) {
		emit_or(e, RAX, RAX);
		emit_jcc(e, CC_E, &l->simple);
		emit_load(e, RDX, mem_at(RSI, TIMES(key)));
		emit_lea(e, RAX, mem_index(RAX, RDX, 8, 0));
	}
	if (!keyed || !keys->at_exit) {
		emit_load(e, RDX, mem_at(RSI, TIMES(within_before)));
		emit_add(e, RDX, RCX);
		emit_sub_mem(e, RDX, mem_at(RAX, 0));
		emit_add_mem(e, mem_at(RAX, 0), RDX);
	}
	emit_bind(e, &l->simple);
	emit_lock_add_mem(e, mem_at(RBX, CELL(total)), RDX);
	emit_alu(e, ALU_SUB, RDX, RCX);
	emit_jcc(e, CC_NE, &l->nested);
	emit_bind(e, &l->outermost);
}

/*
 * rcx = duration, rsi = the stub's slot. Adds to the cell's total, and marks the time as spent for
 * the calls around. The stub must not be free yet: a signal handler's call would take it, with its
 * times. rax, rdx are lost.
 */
static void emit_count_times(struct emitter *e, const struct tramp_keys *keys,
			     struct count_labels *l)
{
	bool keyed = keys->table.v != 0;

	if (!keyed || keys->value == VALUE_DURATION)
		emit_count_total(e, keys, l);
	emit_load(e, RAX, mem_at(RSI, TIMES(covered)));
	emit_load(e, RDX, mem_at(RAX, 0));
	emit_sub_mem(e, RDX, mem_at(RSI, TIMES(covered_before)));
	if (keyed && keys->value == VALUE_SELF) {
		emit_not(e, RDX);
		emit_lea(e, RDX, mem_index(RDX, RCX, 1, 1));
		emit_store(e, mem_at(RSI, TIMES(value)), RDX);
	} else if (!keyed || keys->value == VALUE_DURATION) {
		emit_jcc(e, CC_NE, &l->busy);
		emit_bind(e, &l->alone);
	}
	emit_load(e, RDX, mem_at(RSI, TIMES(covered_before)));
	emit_add(e, RDX, RCX);
	emit_store(e, mem_at(RAX, 0), RDX);
}

/* Out of line: rdx = less the durations of calls of the same function inside; durations of all
 * calls inside. */
static void emit_count_nested(struct emitter *e, const struct tramp_keys *keys,
			      struct count_labels *l)
{
	if (keys->table.v && keys->value != VALUE_DURATION)
		return;
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
static void emit_count_duration(struct emitter *e, uint8_t bits, struct count_labels *l)
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
	emit_or_imm(e, RCX, 1 << bits);
	emit_bsr(e, RCX, RCX);
	emit_add_imm(e, RCX, -bits);
	emit_shr_cl(e, RAX);
	emit_shl_imm(e, RCX, bits);
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
				const struct tramp_event *event, const struct tramp_keys *keys,
				struct label *back, size_t *ret_field)
{
	emit_duration(e);
	exit_emit_duration(e, env);
	emit_store(e, mem_at(RSI, (int32_t)DT_KEPT_AT(DT_KEPT_DURATION)), RAX);
	emit_store(e, mem_at(RSI, STUB_START), RCX);
	if (event->program) {
		int32_t image = (int32_t)DT_ROUND_UP(event->program->size_max, 16);

		emit_mov(e, RDX, RAX);
		emit_lea(e, RSP, mem_at(RSP, -image));
		emit_store_imm(e, mem_at(RSP, 0), 0);
		emit_store_imm(e, mem_at(RSP, 8), 0);
		gather_emit_call(e, env, event, image, EXIT_RA + image, ret_field);
		emit_load32(e, RCX, mem_at(RSP, 0));
		emit_load(e, RDX, mem_at(RSP, 8));
		emit_lea(e, RSP, mem_at(RSP, image));
		if (keys->at_exit)
			emit_store(e, mem_at(RSI, TIMES(key)), RCX);
		if (keys->value == VALUE_NUMBER)
			emit_store(e, mem_at(RSI, TIMES(value)), RDX);
		if (!keys->table.v || event->count.keys.has_condition) {
			emit_or(e, RAX, RAX);
			emit_jcc(e, CC_E, back);
		}
	}
	if (event->filter)
		filter_emit(e, event->filter, EXIT_RA, true, back);
}

void count_emit_exit(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event)
{
	const struct tramp_keys *keys = &event->count.keys;
	struct count_labels l = { 0 };
	size_t program_field = 0;

	emit_note(e, "the function returns: find the stub");
	exit_emit_row(e, 0);
	emit_push(e, RSI);
	record_emit_save(e, false);
	exit_emit_identify(e, env, &l.unrecorded);
	exit_emit_fresh(e, env, &l.unrecorded, &l.back);
	emit_note(e, "the clock; the duration");
	record_emit_clock(e);
	if (event->at_exit)
		emit_exit_condition(e, env, event->at_exit, keys, &l.back, &program_field);
	emit_find_cell(e, &event->count);
	if (keys->table.v)
		emit_find_key_cell(e, keys, mem_at(RSI, TIMES(key)));
	if (event->at_exit)
		emit_load(e, RCX, mem_at(RSI, STUB_START));
	else
		emit_duration(e);
	emit_note(e, "time on the stack; time of the calls inside");
	emit_count_times(e, keys, &l);
	if (keys->table.v && keys->at_exit)
		emit_lock_inc_mem(e, mem_at(RBX, CELL(hits)));
	if (keys->table.v && keys->value != VALUE_DURATION)
		emit_load(e, RCX, mem_at(RSI, TIMES(value)));
	emit_note(e, "the stub is free again");
	exit_emit_give_back(e, env);
	emit_note(e, "the previous duration: the longest, and its bucket");
	if (keys->table.v && keys->value != VALUE_DURATION)
		emit_count_value(e);
	else
		emit_count_duration(e, keys->table.v ? DT_KEY_BUCKET_BITS : DT_BUCKET_BITS, &l);
	emit_bind(e, &l.out);
	record_emit_restore(e, false);
	emit_pop(e, RSI);
	emit_ret(e);
	exit_emit_row(e, EXIT_RA);
	emit_raise(e, &l.raise, &l.raised);
	emit_count_nested(e, keys, &l);
	emit_bind(e, &l.unrecorded);
	exit_emit_unrecorded(e, env);
	emit_bind(e, &l.back);
	exit_emit_give_back(e, env);
	emit_jmp(e, &l.out);
	if (event->at_exit && event->at_exit->program)
		gather_emit_program(e, event->at_exit, program_field);
}
