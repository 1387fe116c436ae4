#include "control/codegen/shared_code.h"

#include "control/base/cleanup.h"
#include "control/codegen/record_code.h"
#include "control/codegen/slot_code.h"
#include "control/codegen/tramp_frame.h"
#include "shared/frame.h"
#include "shared/layout.h"

#define ID_AT 3 /* from the return address (U4) */

bool shared_is_for(uint32_t size)
{
	return size <= sizeof(((struct dt_state *)0)->sink);
}

/* Out of line: asks the agent for a slot, or for room. */
static void emit_slow(struct emitter *e, const struct tramp_env *env, uint32_t size,
		      struct record_labels *l)
{
	emit_bind(e, &l->slow);
	emit_note(e, "id of the event: behind the call (U4)");
	emit_load(e, RAX, mem_at(RSP, 0));
	emit_load32(e, RAX, mem_at(RAX, ID_AT));
	emit_and_imm32(e, RAX, (int32_t)(DT_EVENT_PENDING - 1));
	record_emit_slow_call(e, env, size);
	emit_jrcxz(e, &l->out);
	emit_jmp(e, &l->reserve);
	emit_bind(e, &l->out);
	emit_note(e, "lost, and counted: written where nobody reads it (U5)");
	emit_mov_imm(e, RBX, record_state_word(env, offsetof(struct dt_state, sink)).v);
	emit_mov_imm(e, RDX, 0);
	emit_ret(e);
}

bool shared_emit(const struct tramp_env *env, uint32_t kind, uint8_t *bytes, size_t room, taddr pc,
		 size_t *ret_size)
{
	_cleanup_(tramp_frame_free) struct emit_rows rows = { 0 };
	uint32_t size = kind & ~SHARED_EXIT;
	struct record_labels l = { 0 };
	struct slot_labels near = { 0 };
	bool exits = kind & SHARED_EXIT;
	struct emitter e;

	emit_init(&e, bytes, room, pc);
	e.tight = !exits; /* else some jumps go farther */
	e.rows = &rows;
	emit_row(&e, sizeof(uint64_t), DT_FRAME_RETURNS, 0); /* U3 */
	if (exits)
		slot_emit_near(&e, env, &near);
	else
		slot_emit_find(&e, env, &l.slow);
	emit_bind(&e, &l.reserve);
	if (exits)
		slot_emit_table(&e);
	record_emit_reserve(&e, size, &l);
	if (exits)
		emit_store(&e, mem_at(RSP, SHARED_CLOCK_AT + (int32_t)sizeof(uint64_t)), RDX);
	record_emit_place(&e, env, size);
	emit_shl_imm(&e, RDX, DT_EVENT_ID_BITS);
	emit_ret(&e);
	emit_slow(&e, env, size, &l);
	if (exits)
		slot_emit_far(&e, env, &near, &l.slow);
	tramp_frame_end(&e, pc);
	*ret_size = e.size;
	return !emit_failed(&e);
}

void shared_emit_call(struct emitter *e, taddr routine, uint32_t id)
{
	emit_note(e, "find the thread, read the clock, take room for the event (shared code)");
	emit_call_to(e, routine);
	emit_note(e, "header: clock and id");
	emit_or_long_imm(e, RDX, (int32_t)id);
	emit_store(e, mem_at(RBX, 0), RDX);
}
