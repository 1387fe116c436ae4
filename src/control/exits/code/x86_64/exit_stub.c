/*
 * The stack of an entry trampoline that takes a stub, once the event is written:
 *
 *	rsp+56	return address; then the stub, for the jump; then, by the stub's call, its landing
 *	rsp+48	rsi
 *	rsp+40	clock
 *	rsp+32	rax, and below it the other registers saved by record_emit_save
 *
 * The stack below a return address is unused, at entry and at exit alike: no red zone is kept.
 *
 * Choice of the stub (R4): the thread's slot has its table; hints[hash of return address and
 * tracepoint] names a stub; the stub's own words decide. The jump to the stub reads its target from
 * below rsp, where a signal handler leaves 128 bytes alone.
 */
#include "control/exits/code/exit_stub.h"

#include <assert.h>
#include <string.h>

#include "shared/layout.h"
#include "control/base/cleanup.h"
#include "control/codegen/gather_code.h"
#include "control/codegen/record_code.h"
#include "control/codegen/shared_code.h"
#include "control/codegen/tramp_frame.h"
#include "shared/frame.h"
#include "control/exits/code/exit_code.h"

#define STUB(field) ((int32_t)offsetof(struct dt_return_slot, field))
#define RETURNS(field) ((int32_t)offsetof(struct dt_returns, field))
#define SITE(field) ((int32_t)offsetof(struct dt_return_site, field))
#define CALLED ((int32_t)sizeof(uint64_t)) /* what shared code has on the stack beside */

#define ENTRY_CLOCK SHARED_CLOCK_AT
#define ENTRY_RA 56
#define ENTRY_RSI (-8) /* from the return address */

void exit_emit_save(struct emitter *e)
{
	emit_push(e, RSI);
	emit_push(e, RSI);
}

void exit_emit_restore(struct emitter *e)
{
	emit_lea(e, RSP, mem_at(RSP, 8));
	emit_pop(e, RSI);
}

void exit_emit_clock(struct emitter *e)
{
	emit_store(e, mem_at(RSP, ENTRY_CLOCK), RDX);
}

/* rax = the sum that is hashed, less than 2^32, rsi = the table. Sets rsi = address of the hint,
 * rbx = struct dt_returns; rax, rcx are lost. */
static void emit_find_hint(struct emitter *e, const struct tramp_env *env)
{
	emit_mov32(e, RCX, RSI);
	emit_shl_cl(e, RAX); /* cl: the table's bits; a shift uses only the lowest 6 */
	emit_shr_imm(e, RAX, 32);
	emit_and_imm32(e, RSI, -(int32_t)DT_RETURN_TABLE_ALIGN);
	emit_mov_imm(e, RBX, env->returns.v);
	emit_add(e, RSI, RBX); /* the table           */
	emit_lea(e, RSI, mem_index(RSI, RAX, 4, offsetof(struct dt_return_table, hints)));
}

/* rax = the stub's offset from stub 0, rbx = struct dt_returns. Sets rcx = the stub's slot, rdx =
 * the stub. */
static void emit_place(struct emitter *e, const struct tramp_env *env)
{
	emit_lea(e, RDX, mem_index(RBX, RAX, 1, (int32_t)taddr_diff(env->stubs, env->returns)));
	emit_lea(e, RCX,
		 mem_index(RBX, RAX, 1u << (DT_RETURN_SHIFT - DT_STUB_SHIFT), RETURNS(slots)));
}

/* Takes the stub that the hint names (R3). The return address becomes the stub before the slot's sp
 * is set (R2). */
static void emit_claim(struct emitter *e, const struct tramp_env *env, uint32_t id,
		       struct exit_labels *l)
{
	emit_load32(e, RAX, mem_at(RSI, 0));
	emit_shl_imm(e, RAX, DT_STUB_SHIFT);
	emit_place(e, env);
	emit_load(e, RAX, mem_at(RSP, ENTRY_RA));
	emit_cmp_mem(e, RAX, mem_at(RCX, STUB(ra)));
	emit_jcc(e, CC_NE, &l->miss);
	emit_cmp_mem32_imm(e, mem_at(RCX, STUB(id)), (int32_t)id);
	emit_jcc(e, CC_NE, &l->miss);
	emit_inc_mem16(e, mem_at(RCX, STUB(use)));
	emit_jcc(e, CC_NE, &l->busy);
	emit_lea(e, RBX, mem_at(RSP, ENTRY_RA));
	emit_store(e, mem_at(RSP, ENTRY_RA), RDX);
	emit_store(e, mem_at(RCX, STUB(sp)), RBX);
	emit_load32(e, RAX, mem_at(RCX, STUB(next)));
	emit_store32(e, mem_at(RSI, 0), RAX);
}

/* rcx = the stub's slot. Keeps the words that the exit needs. rax, rbx are lost. */
static void emit_keep(struct emitter *e, const struct tramp_event *at_exit)
{
	emit_lea(e, RBX, mem_at(RCX, (int32_t)DT_KEPT_AT(0)));
	assert(at_exit->kept_count <= DT_KEPT_DURATION); /* whose word is the last */
	for (size_t i = 0; i < at_exit->kept_count; i++) {
		struct tramp_field field = at_exit->kept[i];

		/* exit_emit_save has pushed it */
		if (field.source == SOURCE_REGISTER && field.reg == RSI) {
			field.source = SOURCE_STACK;
			field.disp = ENTRY_RSI;
		}
		field.offset = (uint16_t)(8 * i);
		record_emit_field(e, 0, ENTRY_RA, &field);
	}
}

static bool is_timed(const struct tramp_event *event)
{
	return event->count.cell.v && !event->foreign.function.v;
}

/* rax = the key's word `within`, or something else if there is no memory for these words. */
static void emit_keyed_within(struct emitter *e)
{
	struct label none = { 0 };

	emit_load32(e, RAX, mem_at(RSP, EXIT_KEY));
	emit_store(e, mem_at(RCX, (int32_t)DT_TIMES_AT(key)), RAX);
	emit_load(e, RBX, mem_at(RCX, (int32_t)DT_TIMES_AT(within)));
	emit_or(e, RBX, RBX);
	emit_jcc_short(e, CC_E, &none);
	emit_load(e, RAX, mem_index(RBX, RAX, 8, 0));
	emit_bind(e, &none);
}

/* rcx = the stub's slot. Keeps the thread's times (struct dt_return_times). rax, rbx are lost. */
static void emit_keep_times(struct emitter *e, const struct tramp_keys *keys)
{
	emit_note(e, "keep the time of calls so far: of this function, and of all");
	if (keys->table.v && !keys->at_exit) {
		emit_keyed_within(e);
	} else if (!keys->table.v) {
		emit_load(e, RAX, mem_at(RCX, (int32_t)DT_TIMES_AT(within)));
		emit_load(e, RAX, mem_at(RAX, 0));
	}
	emit_load(e, RBX, mem_at(RCX, (int32_t)DT_TIMES_AT(covered)));
	emit_load(e, RBX, mem_at(RBX, 0));
	emit_store(e, mem_at(RCX, (int32_t)DT_TIMES_AT(within_before)), RAX);
	emit_store(e, mem_at(RCX, (int32_t)DT_TIMES_AT(covered_before)), RBX);
}

/* rcx = the stub's slot. Keeps the entry's values for the exit (R10). rax, rbx are lost. */
static void emit_values(struct emitter *e, const struct tramp_env *env,
			const struct tramp_event *event, size_t *ret_field)
{
	emit_note(e, "keep the values: the exit decides whether the call is recorded");
	emit_load(e, RBX, mem_at(RCX, (int32_t)DT_TIMES_AT(values)));
	if (event->program) {
		emit_store_imm(e, mem_at(RBX, 8), 0); /* not made */
		gather_emit_beside(e, env, event, ENTRY_RA, EXIT_SAVED_RSI, ret_field);
		return;
	}
	for (size_t i = 0; i < event->field_count; i++) {
		struct tramp_field field = event->fields[i];

		if (field.source == SOURCE_REGISTER && field.reg == RSI) {
			field.source = SOURCE_STACK;
			field.disp = ENTRY_RSI;
			field.load = sizeof(uint64_t);
		}
		field.offset += 8; /* an image has two words before its fields */
		record_emit_field(e, 0, ENTRY_RA, &field);
	}
}

/* Keeps what the exit needs in the stub's slot, rcx. */
static void emit_fill(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, size_t *ret_field)
{
	emit_load(e, RAX, mem_at(RSP, ENTRY_CLOCK));
	emit_store(e, mem_at(RCX, STUB(start)), RAX);
	if (tramp_is_paired(event) && (event->program || event->field_count))
		emit_values(e, env, event, ret_field);
	if (event->at_exit && event->at_exit->kept_count)
		emit_keep(e, event->at_exit);
	if (is_timed(event))
		emit_keep_times(e, &event->count.keys);
}

/* Restores, and jumps to the stub, which is in the place of the return address. */
static void emit_go_to_stub(struct emitter *e)
{
	record_emit_restore(e, false);
	exit_emit_restore(e);
	emit_lea(e, RSP, mem_at(RSP, 8));
	/* the return address, now the stub, is popped: the next word below rsp */
	exit_emit_row(e, -8);
	emit_jmp_mem(e, mem_at(RSP, -8));
}

void exit_emit_take(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    struct exit_labels *l)
{
	emit_imul_mem32_imm(e, RAX, mem_at(RSP, ENTRY_RA), DT_RETURN_MULTIPLIER);
	emit_add_imm32(e, RAX, (int32_t)(event->id * DT_RETURN_ID_MULTIPLIER));
	emit_find_hint(e, env);
	emit_claim(e, env, event->id, l);
	emit_bind(e, &l->taken);
	emit_fill(e, env, event, &l->program_field);
	emit_go_to_stub(e);
	emit_bind(e, &l->out);
}

bool exit_can_share(const struct tramp_event *event)
{
	return !event->may_be_late;
}

static void emit_if_none(struct emitter *e, struct label *out)
{
	emit_or(e, RCX, RCX);
	emit_jcc(e, CC_E, out);
}

void exit_emit_take_shared(struct emitter *e, const struct tramp_event *event,
			   struct exit_labels *l)
{
	assert(exit_can_share(event) && event->taking.v);
	emit_if_none(e, &l->out);
	emit_lea(e, RDX, mem_rip(taddr_add(emit_pc(e), 7)));
	l->site_field = e->size; /* exit_emit_site fills in the distance */
	emit_call_to(e, event->taking);
	emit_if_none(e, &l->out);
	if (event->at_exit && event->at_exit->kept_count)
		emit_keep(e, event->at_exit);
	emit_go_to_stub(e);
	emit_bind(e, &l->out);
}

/* rcx = the slot of a late stub, which isn't put on the stack yet (R9). In use from the end on. */
static void emit_late(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, struct label *late, struct exit_labels *l)
{
	emit_bind(e, late);
	emit_fill(e, env, event, &l->late_program_field);
	emit_load(e, RAX, mem_at(RCX, STUB(sp)));
	emit_xor_imm(e, RAX, (int32_t)DT_RETURN_BUSY);
	emit_store(e, mem_at(RCX, STUB(sp)), RAX);
	emit_jmp(e, &l->out);
}

/* rcx = the slot of the stub that the agent has found, rsp + `place`: the return address. */
static void emit_place_answer(struct emitter *e, const struct tramp_env *env, int32_t place)
{
	emit_mov_imm(e, RBX, env->returns.v);
	emit_mov32(e, RAX, RCX);
	emit_add_imm32(e, RAX, -(int32_t)(uint32_t)(env->returns.v + RETURNS(slots)));
	emit_shr_imm(e, RAX, DT_RETURN_SHIFT - DT_STUB_SHIFT);
	emit_place(e, env);
	emit_store(e, mem_at(RSP, place), RDX);
	emit_lea(e, RBX, mem_at(RSP, place));
	emit_store(e, mem_at(RCX, STUB(sp)), RBX); /* in use from here on */
}

void exit_emit_miss(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    bool timed, struct exit_labels *l)
{
	struct label none = { 0 }, late = { 0 };

	emit_bind(e, &l->busy);
	emit_dec_mem16(e, mem_at(RCX, STUB(use)));
	emit_bind(e, &l->miss);
	emit_lea(e, RAX, mem_at(RSP, ENTRY_RA));
	emit_lea(e, RDX, mem_rip(taddr_add(emit_pc(e), 7)));
	l->site_field = e->size; /* exit_emit_site fills in the distance */
	emit_mov_imm(e, RBX, env->control.v);
	emit_call_mem(e, mem_at(RBX, (int32_t)offsetof(struct dt_control, slow)));
	emit_jrcxz(e, &none);
	if (!timed) {
		record_emit_clock(e);
		exit_emit_clock(e);
	}
	if (event->may_be_late) {
		emit_cmp_mem32_imm(e, mem_at(RCX, STUB(length)), (int32_t)DT_RETURN_LATE);
		emit_jcc(e, CC_E, &late);
	}
	emit_place_answer(e, env, ENTRY_RA);
	emit_jmp(e, &l->taken);
	emit_bind(e, &none);
	emit_jmp(e, &l->out);
	if (event->may_be_late)
		emit_late(e, env, event, &late, l);
}

/* rax = the sum that is hashed, of the site at rdx and of the return address. rbx, rcx are lost. */
static void emit_hash_of_site(struct emitter *e)
{
	emit_imul_mem32_imm(e, RAX, mem_at(RSP, CALLED + ENTRY_RA), DT_RETURN_MULTIPLIER);
	emit_imul_mem32_imm(e, RBX, mem_at(RDX, SITE(id)), (int32_t)DT_RETURN_ID_MULTIPLIER);
	emit_add(e, RAX, RBX);
	emit_mov32(e, RAX, RAX);
}

/* As emit_claim, for the site at rdx. */
static void emit_claim_for_site(struct emitter *e, const struct tramp_env *env,
				struct exit_labels *l)
{
	emit_load32(e, RAX, mem_at(RSI, 0));
	emit_shl_imm(e, RAX, DT_STUB_SHIFT);
	emit_lea(e, RCX,
		 mem_index(RBX, RAX, 1u << (DT_RETURN_SHIFT - DT_STUB_SHIFT), RETURNS(slots)));
	emit_lea(e, RBX, mem_index(RBX, RAX, 1, (int32_t)taddr_diff(env->stubs, env->returns)));
	emit_load(e, RAX, mem_at(RSP, CALLED + ENTRY_RA));
	emit_cmp_mem(e, RAX, mem_at(RCX, STUB(ra)));
	emit_jcc(e, CC_NE, &l->miss);
	emit_load32(e, RAX, mem_at(RDX, SITE(id)));
	emit_cmp_mem32(e, RAX, mem_at(RCX, STUB(id)));
	emit_jcc(e, CC_NE, &l->miss);
	emit_inc_mem16(e, mem_at(RCX, STUB(use)));
	emit_jcc(e, CC_NE, &l->busy);
	emit_lea(e, RAX, mem_at(RSP, CALLED + ENTRY_RA));
	emit_store(e, mem_at(RSP, CALLED + ENTRY_RA), RBX);
	emit_store(e, mem_at(RCX, STUB(sp)), RAX);
	emit_load32(e, RAX, mem_at(RCX, STUB(next)));
	emit_store32(e, mem_at(RSI, 0), RAX);
}

/* The agent finds a stub; rcx = 0: it finds none. */
static void emit_miss_for_site(struct emitter *e, const struct tramp_env *env,
			       struct exit_labels *l)
{
	emit_bind(e, &l->busy);
	emit_dec_mem16(e, mem_at(RCX, STUB(use)));
	emit_bind(e, &l->miss);
	emit_lea(e, RAX, mem_at(RSP, CALLED + ENTRY_RA));
	emit_mov_imm(e, RBX, env->control.v);
	emit_call_mem(e, mem_at(RBX, (int32_t)offsetof(struct dt_control, slow)));
	emit_jrcxz(e, &l->out);
	emit_place_answer(e, env, CALLED + ENTRY_RA);
	emit_jmp(e, &l->taken);
	emit_bind(e, &l->out);
	emit_ret(e);
}

bool exit_emit_taking(const struct tramp_env *env, uint8_t *bytes, size_t room, taddr pc,
		      size_t *ret_size)
{
	_cleanup_(tramp_frame_free) struct emit_rows rows = { 0 };
	struct exit_labels l = { 0 };
	struct emitter e;

	emit_init(&e, bytes, room, pc);
	e.tight = true;
	e.rows = &rows;
	emit_row(&e, CALLED, DT_FRAME_RETURNS, 0); /* U3 */
	emit_hash_of_site(&e);
	emit_find_hint(&e, env);
	emit_claim_for_site(&e, env, &l);
	emit_bind(&e, &l.taken);
	emit_load(&e, RAX, mem_at(RSP, CALLED + ENTRY_CLOCK));
	emit_store(&e, mem_at(RCX, STUB(start)), RAX);
	emit_ret(&e);
	emit_miss_for_site(&e, env, &l);
	tramp_frame_end(&e, pc);
	*ret_size = e.size;
	return !emit_failed(&e);
}

/* Data: a struct dt_return_site, and the distance to it, which ends at `field`. */
static void emit_site(struct emitter *e, const struct dt_return_site *site, size_t field)
{
	int32_t distance = (int32_t)(e->size - field);

	if (!emit_failed(e))
		memcpy(e->bytes + field - sizeof(distance), &distance, sizeof(distance));
	emit_bytes(e, site, sizeof(*site));
}

/* Asks the agent about the call whose return address is at rsp + `place`; rcx is its answer. rax,
 * rdx, rbx are lost. *ret_field is for emit_site. */
static void emit_ask(struct emitter *e, const struct tramp_env *env, int32_t place,
		     size_t *ret_field)
{
	emit_lea(e, RAX, mem_at(RSP, place));
	emit_lea(e, RDX, mem_rip(taddr_add(emit_pc(e), 7)));
	*ret_field = e->size;
	emit_mov_imm(e, RBX, env->control.v);
	emit_call_mem(e, mem_at(RBX, (int32_t)offsetof(struct dt_control, slow)));
}

void exit_emit_again(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event, struct exit_labels *l)
{
	const struct tramp_limits *limits = &event->limits;

	bool is_gathered = event->program && !tramp_is_paired(event);

	if (event->may_be_late && (event->filter || is_gathered || limits->every ||
				   limits->first || limits->rate))
		emit_ask(e, env, ENTRY_RA, &l->again_field);
}

/* The stack: record_code.h. A call with a stub returns by itself. */
void exit_emit_leave(struct emitter *e, const struct tramp_env *env, struct exit_labels *l)
{
	emit_note(e, "a return stub is there already?");
	emit_load(e, RAX, mem_at(RSP, RECORD_SAVED_SIZE));
	emit_mov_imm(e, RCX, env->stubs.v);
	emit_alu(e, ALU_SUB, RAX, RCX);
	emit_shr_imm(e, RAX, DT_STUB_SHIFT);
	emit_add_imm(e, RAX, -(int32_t)DT_STUBS_MAX);
	emit_jcc(e, CC_S, &l->out);
	emit_note(e, "else the agent knows whether the call has one");
	emit_ask(e, env, RECORD_SAVED_SIZE, &l->site_field);
	emit_jrcxz(e, &l->out);
	emit_store(e, mem_at(RSP, RECORD_SAVED_SIZE), RCX);
	emit_bind(e, &l->out);
}

void exit_emit_leave_site(struct emitter *e, const struct tramp_event *event,
			  const struct exit_labels *l)
{
	struct dt_return_site site = { .id = event->id, .flags = event->leaves };

	emit_site(e, &site, l->site_field);
}

/* Bytes of the entry's values, as an image (R10). */
static uint32_t values_size(const struct tramp_event *event)
{
	if (!tramp_is_paired(event))
		return 0;
	return event->program ? event->size : event->size + 8;
}

static uint32_t timed_flags(const struct tramp_event *event)
{
	const struct tramp_keys *keys = &event->count.keys;

	if (!is_timed(event))
		return 0;
	return DT_TIMED | (keys->table.v && !keys->at_exit ? keys->capacity << DT_TIMED_KEYS : 0);
}

static uint32_t go_flags(const struct tramp_event *event)
{
	return event->is_go ? DT_SITE_GO : 0;
}

bool exit_emit_site(struct emitter *e, const struct tramp_env *env, struct tramp_event *event,
		    const struct exit_labels *l)
{
	struct dt_return_site site = { .body = event->off.v,
				       .exit = env->exit.v,
				       .id = event->id,
				       .flags = timed_flags(event) | go_flags(event) |
						(event->is_late ? DT_SITE_LATE : 0),
				       .values = values_size(event) };
	struct dt_return_site again = { .id = event->id, .flags = DT_SITE_AGAIN | go_flags(event) };

	if (l->again_field)
		emit_site(e, &again, l->again_field);
	size_t at = e->size;
	event->return_site = (uint32_t)at;
	emit_site(e, &site, l->site_field);
	event->exit_code = env->exit;
	if (!event->at_exit && tramp_is_recorded(event))
		return false;
	emit_align(e, 16);
	event->exit_code = emit_pc(e);
	site.exit = event->exit_code.v;
	if (!emit_failed(e))
		memcpy(e->bytes + at, &site, sizeof(site));
	return true;
}
