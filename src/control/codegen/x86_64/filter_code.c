#include "control/codegen/filter_code.h"

#include "shared/layout.h"
#include "control/codegen/record_code.h"
#include "control/codegen/value_code.h"

#define LIMITS_ROOM 224
#define COUNTER(field) ((int32_t)offsetof(struct dt_counter, field))

static bool walk_all(struct value_walk *w)
{
	for (size_t at = 0; at < w->count && !w->failed;) {
		if (w->e)
			emit_bind(w->e, &w->labels[at]);
		at += value_emit(w, at);
	}
	return !w->failed && w->depth == 1;
}

bool filter_is_native(const struct value_ops *ops, bool at_exit)
{
	struct value_walk w = { .ops = ops->items, .count = ops->count, .at_exit = at_exit };

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
	return ops ? (ops->count + 2) * VALUE_OP_ROOM : 0;
}

void filter_emit_value(struct emitter *e, const struct value_ops *ops, int32_t saved, bool at_exit)
{
	struct value_walk w = {
		.e = e, .ops = ops->items, .count = ops->count, .saved = saved, .at_exit = at_exit
	};

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
