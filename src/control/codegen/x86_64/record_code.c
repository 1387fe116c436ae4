#include "control/codegen/record_code.h"

#include <assert.h>
#include <string.h>

#include "control/codegen/tramp_frame.h"
#include "shared/layout.h"

#define RED_ZONE 128
#define SLOT(field) ((int32_t)offsetof(struct dt_slot, field))

int32_t record_saved_at(enum reg reg)
{
	static const struct {
		enum reg reg;
		int32_t at; /* from rsp */
	} saved[] = { { RBX, 8 }, { RDX, 16 }, { RCX, 24 }, { RAX, 32 } };

	for (size_t i = 0; i < sizeof(saved) / sizeof(saved[0]); i++) {
		if (saved[i].reg == reg)
			return saved[i].at;
	}
	return -1;
}

void record_emit_save(struct emitter *e, bool keep_red_zone)
{
	emit_note(e, "step over the red zone");
	if (keep_red_zone)
		emit_lea(e, RSP, mem_at(RSP, -RED_ZONE)); /* lea  rsp, [rsp-128] */
	emit_note(e, "save the registers that are used");
	emit_push(e, RAX);
	emit_push(e, RCX);
	emit_push(e, RDX);
	emit_push(e, RBX);
	emit_note(e, "save the flags: overflow, then the others");
	emit_setcc8(e, CC_O, RAX);			/* seto al             */
	emit_lahf(e);
	emit_push(e, RAX);
	emit_row(e, e->row.depth, e->row.origin, tramp_frame_kept(e->row.depth));
}

void record_emit_restore(struct emitter *e, bool keep_red_zone)
{
	emit_note(e, "restore the flags");
	emit_pop(e, RAX);
	emit_add_al_imm8(e, 0x7f);			/* OF = al             */
	emit_sahf(e);
	emit_note(e, "restore the registers");
	emit_pop(e, RBX);
	emit_row(e, e->row.depth, e->row.origin, 0);
	emit_pop(e, RDX);
	emit_pop(e, RCX);
	emit_pop(e, RAX);
	emit_note(e, "step back over the red zone");
	if (keep_red_zone)
		emit_lea(e, RSP, mem_at(RSP, RED_ZONE)); /* lea  rsp, [rsp+128] */
}

void record_emit_clock(struct emitter *e)
{
	emit_rdtsc(e);
	emit_shl_imm(e, RDX, 32);
	emit_or(e, RDX, RAX);
}

void record_emit_reserve(struct emitter *e, uint32_t size, struct record_labels *l)
{
	emit_note(e, "where the next event goes: read before the clock");
	emit_load(e, RBX, mem_at(RCX, SLOT(reserve)));	/* before the clock: B3 */
	emit_note(e, "the clock, in rdx");
	record_emit_clock(e);
	emit_note(e, "cycles since the last event");
	emit_mov(e, RAX, RDX);
	emit_sub_mem(e, RAX, mem_at(RCX, SLOT(last)));
	emit_shr_imm(e, RAX, DT_CLOCK_GAP_SHIFT);	/* a gap or a step back: B6 */
	emit_note(e, "too many, or backwards: the agent");
	emit_jcc(e, CC_NE, &l->slow);
	emit_note(e, "room for this event");
	emit_mov(e, RAX, RBX);
	emit_add_imm(e, RBX, (int32_t)size);
	emit_cmp_mem32(e, RBX, mem_at(RCX, SLOT(limit)));
	emit_note(e, "the chunk is full: the agent takes another");
	emit_jcc(e, CC_A, &l->slow);
	emit_note(e, "take the room, unless a signal handler took it meanwhile");
	emit_cmpxchg(e, mem_at(RCX, SLOT(reserve)), RBX); /* B2 */
	emit_note(e, "then try again");
	emit_jcc(e, CC_NE, &l->reserve);
	emit_note(e, "the last event's clock");
	emit_store(e, mem_at(RCX, SLOT(last)), RDX);
	emit_note(e, "count the events of this thread");
	emit_inc_mem32(e, mem_at(RCX, SLOT(events)));
}

void record_emit_place(struct emitter *e, const struct tramp_env *env, uint32_t size)
{
	emit_note(e, "rbx = the event in the pool");
	emit_mov32(e, RBX, RBX);
	emit_mov_imm(e, RAX, env->pool.v - size);
	emit_add(e, RBX, RAX);
}

/* Cuts the field out of the 64 bits in rax. */
static void emit_part(struct emitter *e, const struct tramp_field *field)
{
	if (!field->bits) {
		if (field->shift)
			emit_shr_imm(e, RAX, field->shift);
		return;
	}
	if (field->shift + field->bits < 64)
		emit_shl_imm(e, RAX, (uint8_t)(64 - field->shift - field->bits));
	if (field->is_signed && field->bits < 64)
		emit_sar_imm(e, RAX, (uint8_t)(64 - field->bits));
	else if (field->bits < 64)
		emit_shr_imm(e, RAX, (uint8_t)(64 - field->bits));
}

/* Writes a field from the stack, without reading bytes beyond it. */
static void emit_stack_field(struct emitter *e, int32_t saved, const struct tramp_field *field)
{
	unsigned size = field->size ? field->size : 8;
	unsigned load = field->load ? field->load : size;

	load = load > 4 ? 8 : load == 3 ? 4 : load;
	emit_load_size(e, RAX, mem_at(RSP, field->disp + saved), load);
	emit_part(e, field);
	emit_store_size(e, mem_at(RBX, field->offset), RAX, size);
}

void record_emit_field(struct emitter *e, int32_t frame, int32_t saved,
		       const struct tramp_field *field)
{
	enum reg from = field->reg;
	unsigned size = field->size ? field->size : 8;
	int32_t at = record_saved_at(field->reg);

	if (field->source == SOURCE_STACK) {
		emit_stack_field(e, saved, field);
		return;
	}
	if (field->source == SOURCE_XMM) {
		emit_store_xmm(e, mem_at(RBX, field->offset), field->reg, size);
		return;
	}
	if (at >= 0) {
		emit_load(e, RAX, mem_at(RSP, frame + at));
		from = RAX;
	}
	if (from == RSP) {
		emit_lea(e, RAX, mem_at(RSP, saved));
		from = RAX;
	}
	if (from != RAX && (field->shift || field->bits || size == 1)) {
		emit_mov(e, RAX, from);
		from = RAX;
	}
	if (from == RAX)
		emit_part(e, field);
	emit_store_size(e, mem_at(RBX, field->offset), from, size);
}

taddr record_state_word(const struct tramp_env *env, size_t offset)
{
	return taddr_add(env->slots, (int64_t)offset - (int64_t)offsetof(struct dt_state, slots));
}

/* A forked child's state is wiped, or marked as muted. */
void record_emit_own_only(struct emitter *e, const struct tramp_env *env, struct label *out)
{
	_Static_assert(offsetof(struct dt_state, muted) == offsetof(struct dt_state, pid) + 4,
		       "one word");
	emit_note(e, "forked children are not traced");
	emit_mov_imm(e, RAX, record_state_word(env, offsetof(struct dt_state, pid)).v);
	emit_load(e, RAX, mem_at(RAX, 0));
	emit_add_imm(e, RAX, -1);			/* borrows if pid is 0 */
	emit_shr_imm(e, RAX, 32);
	emit_jcc(e, CC_NE, out);
}

void record_emit_slow_call(struct emitter *e, const struct tramp_env *env, uint32_t size)
{
	emit_note(e, "size of the event");
	emit_mov_imm(e, RDX, size);
	emit_note(e, "the agent's slow path");
	emit_mov_imm(e, RBX, env->control.v);
	emit_call_mem(e, mem_at(RBX, (int32_t)offsetof(struct dt_control, slow)));
}
