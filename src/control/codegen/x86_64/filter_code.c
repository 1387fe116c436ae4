/*
 * The condition's stack of numbers lies in the four registers that the trampoline has saved: the
 * lowest number in rax, then rcx, rdx, rbx. The program's values of these registers are on the
 * stack (record_code.h draws it).
 */
#include "control/codegen/filter_code.h"

#include <assert.h>
#include <string.h>

#include "shared/layout.h"
#include "control/codegen/record_code.h"

#define DEPTH_MAX 4
#define OP_ROOM 40
#define LIMITS_ROOM 224
#define COUNTER(field) ((int32_t)offsetof(struct dt_counter, field))

static const enum reg stack_regs[DEPTH_MAX] = { RAX, RCX, RDX, RBX };

static const struct {
	uint8_t code;
	enum alu alu;
} alus[] = {
	{ DT_OP_ADD, ALU_ADD }, { DT_OP_SUB, ALU_SUB }, { DT_OP_AND, ALU_AND },
	{ DT_OP_OR, ALU_OR },	{ DT_OP_XOR, ALU_XOR },
};

static const struct {
	uint8_t code;
	enum cond cc;
} conditions[] = {
	{ DT_OP_EQ, CC_E },  { DT_OP_NE, CC_NE },  { DT_OP_LT, CC_L },	{ DT_OP_LE, CC_LE },
	{ DT_OP_GT, CC_G },  { DT_OP_GE, CC_GE },  { DT_OP_LTU, CC_B }, { DT_OP_LEU, CC_BE },
	{ DT_OP_GTU, CC_A }, { DT_OP_GEU, CC_AE },
};

struct walk {
	struct emitter *e; /* NULL: only checks */
	const struct value_ops *ops;
	int32_t saved;
	bool at_exit;
	size_t depth;
	bool failed;
	struct label labels[VALUE_OPS_MAX + 1]; /* per operation */
};

static enum reg top(const struct walk *w, size_t below)
{
	assert(below < w->depth && w->depth <= DEPTH_MAX);
	return stack_regs[w->depth - 1 - below];
}

/* Makes room for one more number; false: too many. */
static bool grow(struct walk *w)
{
	if (w->depth >= DEPTH_MAX)
		w->failed = true;
	else
		w->depth++;
	return !w->failed;
}

static bool shrink(struct walk *w, size_t needed)
{
	if (w->depth < needed)
		w->failed = true;
	return !w->failed;
}

/* Pushes a word that the entry kept for the exit. */
static void push_kept(struct walk *w, unsigned number)
{
	if (!w->at_exit || number >= DT_KEPT_MAX)
		w->failed = true;
	else if (grow(w) && w->e)
		emit_load(w->e, top(w, 0), mem_at(RSI, (int32_t)DT_KEPT_AT(number)));
}

static void push_register(struct walk *w, enum reg reg)
{
	int32_t at = record_saved_at(reg);
	enum reg to;

	if ((unsigned)reg == DT_REG_DURATION) {
		push_kept(w, DT_KEPT_DURATION);
		return;
	}
	if (reg > R15 || (w->at_exit && reg == RSI) || !grow(w)) {
		w->failed = true;
		return;
	}
	if (!w->e)
		return;
	to = top(w, 0);
	if (at >= 0)
		emit_load(w->e, to, mem_at(RSP, at));
	else if (reg == RSP)
		emit_lea(w->e, to, mem_at(RSP, w->saved));
	else
		emit_mov(w->e, to, reg);
}

static void cut(struct walk *w, uint8_t shift, uint16_t bits, bool is_signed)
{
	enum reg reg;

	if (!shrink(w, 1) || shift > 63 || bits > 64 || (bits && shift + bits > 64)) {
		w->failed = true;
		return;
	}
	if (!w->e)
		return;
	reg = top(w, 0);
	bits = bits ? bits : 64;
	if (shift + bits < 64)
		emit_shl_imm(w->e, reg, (uint8_t)(64 - shift - bits));
	if (bits < 64 && is_signed)
		emit_sar_imm(w->e, reg, (uint8_t)(64 - bits));
	else if (bits < 64)
		emit_shr_imm(w->e, reg, (uint8_t)(64 - bits));
}

/* Pushes a word of the frame: REG rsp, OFFSET, LOAD. Returns the number of operations; 0: they
 * aren't such a load. */
static size_t frame_load(struct walk *w, size_t at)
{
	const struct dt_op *op = &w->ops->items[at];
	uint8_t size;

	if (at + 2 >= w->ops->count || op[0].code != DT_OP_REG || op[0].a != RSP ||
	    op[1].code != DT_OP_OFFSET || (int32_t)op[1].c < 0 || op[2].code != DT_OP_LOAD)
		return 0;
	size = op[2].a;
	if ((size != 1 && size != 2 && size != 4 && size != 8) || !grow(w)) {
		w->failed = true;
		return 3;
	}
	if (w->e)
		emit_load_size(w->e, top(w, 0), mem_at(RSP, w->saved + (int32_t)op[1].c), size);
	if (op[2].b && size < 8)
		cut(w, 0, (uint16_t)(size * 8), true);
	return 3;
}

/* Pushes a constant, or shifts by it if a shift follows. */
static size_t constant(struct walk *w, size_t at)
{
	const struct dt_op *op = &w->ops->items[at];
	uint64_t value;
	uint8_t next = at + 2 < w->ops->count ? op[2].code : DT_OP_END;

	if (at + 1 >= w->ops->count) {
		w->failed = true;
		return 2;
	}
	memcpy(&value, &op[1], sizeof(value));
	if (next >= DT_OP_SHL && next <= DT_OP_SAR) {
		if (!shrink(w, 1) || value > 63) {
			w->failed = true;
			return 3;
		}
		if (w->e && value)
			(next == DT_OP_SHL ? emit_shl_imm :
			 next == DT_OP_SHR ? emit_shr_imm :
					     emit_sar_imm)(w->e, top(w, 0), (uint8_t)value);
		return 3;
	}
	if (grow(w) && w->e)
		emit_mov_imm(w->e, top(w, 0), value);
	return 2;
}

/* Turns the flags into 1 or 0. mov leaves flags alone. */
static void set_from_flags(struct walk *w, enum cond cc)
{
	emit_mov_imm(w->e, top(w, 0), 0);
	emit_setcc8(w->e, cc, top(w, 0));
}

static bool binary(struct walk *w, uint8_t code)
{
	for (size_t i = 0; i < sizeof(alus) / sizeof(alus[0]); i++) {
		if (alus[i].code != code || !shrink(w, 2))
			continue;
		if (w->e)
			emit_alu(w->e, alus[i].alu, top(w, 1), top(w, 0));
		w->depth--;
		return true;
	}
	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		if (conditions[i].code != code || !shrink(w, 2))
			continue;
		if (w->e)
			emit_alu(w->e, ALU_CMP, top(w, 1), top(w, 0));
		w->depth--;
		if (w->e)
			set_from_flags(w, conditions[i].cc);
		return true;
	}
	if (code != DT_OP_MUL || !shrink(w, 2))
		return false;
	if (w->e)
		emit_imul(w->e, top(w, 1), top(w, 0));
	w->depth--;
	return true;
}

static bool unary(struct walk *w, uint8_t code)
{
	if ((code != DT_OP_LNOT && code != DT_OP_NOT && code != DT_OP_NEG) || !shrink(w, 1))
		return false;
	if (!w->e)
		return true;
	if (code == DT_OP_LNOT) {
		emit_or(w->e, top(w, 0), top(w, 0));
		set_from_flags(w, CC_E);
		return true;
	}
	emit_not(w->e, top(w, 0));
	if (code == DT_OP_NEG)
		emit_add_imm(w->e, top(w, 0), 1);
	return true;
}

static void skip(struct walk *w, size_t at)
{
	const struct dt_op *op = &w->ops->items[at];
	bool conditional = op->code == DT_OP_SKIP_ZERO;
	size_t to = at + 1 + op->c;

	if (to > w->ops->count || !shrink(w, 1)) {
		w->failed = true;
		return;
	}
	if (w->e && conditional)
		emit_or(w->e, top(w, 0), top(w, 0));
	if (w->e && conditional)
		emit_jcc(w->e, CC_E, &w->labels[to]);
	else if (w->e)
		emit_jmp(w->e, &w->labels[to]);
	w->depth--; /* the tested number, or the one that the other way pushes too */
}

/* Translates one operation, or a few that are one instruction; returns their number. */
static size_t one(struct walk *w, size_t at)
{
	const struct dt_op *op = &w->ops->items[at];
	size_t fused = frame_load(w, at);

	if (fused)
		return fused;
	switch (op->code) {
	case DT_OP_REG:
		push_register(w, (enum reg)op->a);
		break;
	case DT_OP_XMM:
		if (op->b || op->a > 15)
			w->failed = true;
		else if (grow(w) && w->e)
			emit_mov_from_xmm(w->e, top(w, 0), op->a);
		break;
	case DT_OP_KEPT:
		push_kept(w, op->a);
		break;
	case DT_OP_CONST:
		return constant(w, at);
	case DT_OP_OFFSET:
		if (shrink(w, 1) && w->e)
			emit_add_imm(w->e, top(w, 0), (int32_t)op->c);
		break;
	case DT_OP_BITS:
		cut(w, op->a, op->b, op->c);
		break;
	case DT_OP_SKIP:
	case DT_OP_SKIP_ZERO:
		skip(w, at);
		break;
	default:
		if (!unary(w, op->code) && !binary(w, op->code))
			w->failed = true;
	}
	return 1;
}

static bool walk_all(struct walk *w)
{
	for (size_t at = 0; at < w->ops->count && !w->failed;) {
		if (w->e)
			emit_bind(w->e, &w->labels[at]);
		at += one(w, at);
	}
	return !w->failed && w->depth == 1;
}

bool filter_is_native(const struct value_ops *ops, bool at_exit)
{
	struct walk w = { .ops = ops, .at_exit = at_exit };

	return walk_all(&w);
}

size_t filter_room(const struct tramp_event *event)
{
	size_t room =
		event->limits.every || event->limits.first || event->limits.rate ? LIMITS_ROOM : 0;

	return room + filter_value_room(event->filter);
}

size_t filter_value_room(const struct value_ops *ops)
{
	return ops ? (ops->count + 2) * OP_ROOM : 0;
}

void filter_emit_value(struct emitter *e, const struct value_ops *ops, int32_t saved, bool at_exit)
{
	struct walk w = { .e = e, .ops = ops, .saved = saved, .at_exit = at_exit };

	if (!walk_all(&w)) {
		e->failed = true;
		return;
	}
	emit_bind(e, &w.labels[ops->count]);
}

void filter_emit(struct emitter *e, const struct value_ops *ops, int32_t saved, bool at_exit,
		 struct label *no)
{
	filter_emit_value(e, ops, saved, at_exit);
	emit_or(e, RAX, RAX);
	emit_jcc(e, CC_E, no);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* rax = the counter's value before one was added to it. */
static void emit_count(struct emitter *e, int32_t field)
{
	emit_mov_imm(e, RAX, 1);
	emit_lock_xadd(e, mem_at(RCX, field), RAX);
}

/* Jumps to `no` once `most` have been counted. */
static void emit_at_most(struct emitter *e, int32_t field, uint64_t most, struct label *no)
{
	emit_mov_imm(e, RBX, most);
	emit_load(e, RAX, mem_at(RCX, field));
	emit_alu(e, ALU_CMP, RAX, RBX);
	emit_jcc(e, CC_AE, no); /* needs no lock while the answer is no */
	emit_count(e, field);
	emit_alu(e, ALU_CMP, RAX, RBX);
	emit_jcc(e, CC_AE, no);
}

/* Begins a new period with the first hit after the old one. Two threads may both begin it, which
 * costs a hit. */
static void emit_period(struct emitter *e, uint64_t period)
{
	struct label same = { 0 };

	record_emit_clock(e);
	emit_mov(e, RAX, RDX);
	emit_sub_mem(e, RAX, mem_at(RCX, COUNTER(period)));
	emit_mov_imm(e, RBX, period);
	emit_alu(e, ALU_CMP, RAX, RBX);
	emit_jcc_short(e, CC_B, &same);
	emit_store(e, mem_at(RCX, COUNTER(period)), RDX);
	emit_mov_imm(e, RAX, 0);
	emit_store(e, mem_at(RCX, COUNTER(rate)), RAX);
	emit_bind(e, &same);
}

void filter_emit_limits(struct emitter *e, const struct tramp_env *env,
			const struct tramp_limits *limits, struct label *no)
{
	struct label unlimited = { 0 };

	if (!limits->every && !limits->first && !limits->rate)
		return;
	emit_mov_imm(e, RCX, env->pool.v + offsetof(struct dt_pool, counters) +
				     limits->counter * sizeof(struct dt_counter));
	if (limits->every) {
		emit_count(e, COUNTER(every));
		emit_mov_imm(e, RDX, 0);
		emit_mov_imm(e, RBX, limits->every);
		emit_div(e, RBX);
		emit_or(e, RDX, RDX);
		emit_jcc(e, CC_NE, no);
	}
	if (limits->rate) {
		int32_t counter = (int32_t)(offsetof(struct dt_pool, counters) +
					    limits->counter * sizeof(struct dt_counter));
		int32_t clockless = (int32_t)offsetof(struct dt_pool, clockless) - counter;

		/* a thread has given up the clock (H26): its hits are lost, and counted */
		emit_cmp_mem32_imm(e, mem_at(RCX, clockless), 0);
		emit_jcc(e, CC_NE, &unlimited);
		emit_period(e, limits->period);
		emit_at_most(e, COUNTER(rate), limits->rate, no);
		emit_bind(e, &unlimited);
	}
	if (limits->first)
		emit_at_most(e, COUNTER(first), limits->first, no);
}
