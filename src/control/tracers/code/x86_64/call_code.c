#include "control/tracers/code/call_code.h"

#include <string.h>

#include "control/codegen/record_code.h"
#include "control/codegen/slot_code.h"

#define ROOM 420
#define PAGE_SHIFT 12
#define SHARED(field) ((int64_t)offsetof(struct dt_call_shared, field))

_Static_assert(offsetof(struct dt_call_frame, hit.registers.rip) == 144, "call_gate.S");
_Static_assert(offsetof(struct dt_call_frame, image) == 160 &&
		       offsetof(struct dt_call_frame, flags) == 208,
	       "call_gate.S");
_Static_assert(sizeof(struct dt_call_frame) == 216, "call_gate.S");
_Static_assert(offsetof(struct dt_call_site, op) == 24 &&
		       offsetof(struct dt_call_site, saved) == 32,
	       "call_gate.S");
_Static_assert(offsetof(struct dt_call_site, tracepoint.is_exit) == 44, "call_gate.S");
_Static_assert(offsetof(struct dt_call_site, tracepoint.address) == 48, "call_gate.S");
_Static_assert(offsetof(struct dt_return_slot, ra) == 0, "call_gate.S");

/* ---- gates ----------------------------------------------------------------------------------- */

#define GATE(name)                                                                                 \
	extern const uint8_t call_gate_##name[], call_gate_##name##_resume[],                      \
		call_gate_##name##_end[]
GATE(none);
GATE(xmm);
GATE(ymm);
GATE(zmm);
GATE(zmm_bw);

#define ROW(name, stride)                                                                          \
	{                                                                                          \
		call_gate_##name, call_gate_##name##_resume, call_gate_##name##_end, stride        \
	}
static const struct {
	const uint8_t *start, *resume, *end;
	uint32_t stride;
} gates[] = {
	[FOREIGN_SAVES_NONE] = ROW(none, 0),	  [FOREIGN_SAVES_XMM] = ROW(xmm, 16),
	[FOREIGN_SAVES_YMM] = ROW(ymm, 32),	  [FOREIGN_SAVES_ZMM] = ROW(zmm, 64),
	[FOREIGN_SAVES_ZMM_BW] = ROW(zmm_bw, 64),
};

bool call_write_gate(enum foreign_state state, int64_t error_number, uint8_t *bytes, size_t room,
		     struct call_gate *ret_gate)
{
	enum foreign_saves saves = foreign_choose(state);
	struct call_gate gate = { .size = (uint32_t)(gates[saves].end - gates[saves].start),
				  .entry = FOREIGN_GATE_ENTRY,
				  .resume = (uint32_t)(gates[saves].resume - gates[saves].start),
				  .stride = gates[saves].stride };

	if (gate.size > room)
		return false;
	memcpy(bytes, gates[saves].start, gate.size);
	memcpy(bytes, &error_number, sizeof(error_number));
	*ret_gate = gate;
	return true;
}

/* ---- hits ------------------------------------------------------------------------------------ */

size_t call_room(const struct tramp_event *event)
{
	if (!event->foreign.call_size)
		return 0;
	return ROOM + event->foreign.call_size +
	       (event->exit ? ROOM + event->foreign.exit_call_size : 0);
}

/* rax = the word in dt_state.calls of the slot in rcx; rdx is lost. */
static void emit_word(struct emitter *e, const struct tramp_env *env)
{
	uint64_t state = env->slots.v - offsetof(struct dt_state, slots);

	emit_mov(e, RAX, RCX);
	emit_shr_imm(e, RAX, 3);
	emit_mov_imm(e, RDX, DT_CALLS_DISTANCE(state));
	emit_add(e, RAX, RDX);
}

/* (C4) Goes out of line unless the stack pointer is in the range that was checked last, with room
 * below. rax stays; rcx, rdx are lost. */
static void emit_room(struct emitter *e, struct call_labels *l)
{
	emit_note(e, "room on the stack: C4");
	emit_load(e, RDX, mem_at(RAX, (int32_t)DT_ROOMS_OFFSET));
	emit_lea(e, RCX, mem_at(RSP, -DT_CALL_ROOM));
	emit_alu(e, ALU_SUB, RCX, RDX);
	emit_and_imm32(e, RDX, DT_PAGE - 1);
	emit_shl_imm(e, RDX, PAGE_SHIFT);
	emit_alu(e, ALU_CMP, RCX, RDX);
	emit_jcc(e, CC_AE, &l->cramped);
	emit_bind(e, &l->roomy);
}

void call_emit(struct emitter *e, const struct tramp_env *env, taddr address, int32_t image,
	       struct call_labels *l, size_t *ret_field)
{
	slot_emit_find(e, env, &l->no_slot);
	emit_bind(e, &l->have_slot);
	emit_note(e, "is the thread inside such a function already?");
	emit_word(e, env);
	emit_load(e, RDX, mem_at(RAX, 0));
	emit_or(e, RDX, RDX);
	emit_jcc(e, CC_NE, &l->nested);
	emit_bind(e, &l->go);
	if (l->looks)
		emit_room(e, l);
	emit_note(e, "call the function through the gate");
	emit_mov_imm(e, RCX, address.v);
	emit_store(e, mem_at(RSP, 0), RCX);
	emit_mov(e, RCX, RSP);
	emit_lea(e, RDX, mem_at(RSP, image));
	emit_lea(e, RBX, mem_rip(taddr_add(emit_pc(e), 7)));
	*ret_field = e->size;
	emit_call_mem(e, mem_at(RBX, (int32_t)DT_CALL_GATE));
}

/* Adds one to a word of the tracepoint's struct dt_call_shared. */
static void emit_count(struct emitter *e, const struct tramp_event *event, int64_t word)
{
	emit_mov_imm(e, RAX, event->foreign.call->shared + (uint64_t)word);
	emit_lock_inc_mem(e, mem_at(RAX, 0));
}

void call_emit_slow(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    int32_t image, struct call_labels *l, struct label *out)
{
	struct label none = { 0 }, tight = { 0 }, inside = { 0 }, inside_far = { 0 }, over = { 0 };

	emit_row(e, e->row.depth + image, e->row.origin, e->row.kept);
	emit_bind(e, &l->no_slot);
	emit_mov_imm(e, RAX, event->id);
	record_emit_slow_call(e, env, 0);
	emit_jrcxz(e, &none);
	emit_jmp(e, &l->have_slot);
	emit_bind(e, &none);
	emit_count(e, event, SHARED(lost));
	emit_jmp(e, &over);
	if (l->looks) {
		emit_bind(e, &tight);
		emit_count(e, event, SHARED(cramped));
		emit_jmp(e, &over);
		emit_bind(e, &l->cramped);
		emit_mov_imm(e, RAX, DT_ASK_ROOM);
		record_emit_slow_call(e, env, 0);
		emit_jrcxz(e, &tight);
		emit_word(e, env);
		emit_jmp(e, &l->roomy);
	}
	emit_bind(e, &l->nested);
	emit_note(e, "unless the thread left it by a jump: C2");
	emit_cmp_mem(e, RSP, mem_at(RAX, 0));
	emit_jcc(e, CC_B, &inside);
	emit_mov_imm(e, RAX, DT_ASK_CALL);
	record_emit_slow_call(e, env, 0);
	emit_jrcxz(e, &inside_far);
	emit_word(e, env);
	emit_jmp(e, &l->go);
	emit_bind(e, &inside_far);
	emit_bind(e, &inside);
	emit_note(e, "count the hit, without a call");
	emit_count(e, event, SHARED(nested));
	emit_bind(e, &over);
	emit_lea(e, RSP, mem_at(RSP, image));
	emit_jmp(e, out);
}

void call_emit_site(struct emitter *e, const struct dt_call_site *site, uint32_t size,
		    uint32_t saved, size_t field)
{
	struct dt_call_site head = *site;
	int32_t distance;

	emit_align(e, 64);
	distance = (int32_t)(e->size - field);
	head.saved = saved;
	head.tracepoint.name = (const char *)(emit_pc(e).v + sizeof(head) +
					      site->field_count * sizeof(site->fields[0]));
	if (!emit_failed(e))
		memcpy(e->bytes + field - sizeof(distance), &distance, sizeof(distance));
	emit_bytes(e, &head, sizeof(head));
	emit_bytes(e, site->fields, size - sizeof(head));
}
