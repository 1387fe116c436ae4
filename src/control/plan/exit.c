/*
 * exit.c
 *
 * The stack of an entry trampoline that takes a stub, once the event is written:
 *
 *	rsp+56	return address; then the stub, for the jump; then, by the stub's call, its landing
 *	rsp+48	rsi
 *	rsp+40	clock
 *	rsp+32	rax, and below it what emit_save pushes
 *
 * And of the code that records an exit, where the stub has put its index in the place of the
 * return address:
 *
 *	rsp+48	index; then the return address, which the last `ret` takes (H8)
 *	rsp+40	rsi
 *	rsp+32	rax, and below it what emit_save pushes
 *
 * Nothing of the stack below a return address is anybody's, at entry and at exit alike: no red
 * zone is kept.
 *
 * Which stub (R4): the table of the thread, by its slot; hints[hash of return address and
 * tracepoint]; the stub's own words decide. The jump to the stub reads its target from below rsp,
 * where a signal handler leaves 128 bytes alone.
 */
#include "exit.h"

#include <string.h>

#include "../../shared/layout.h"
#include "record_code.h"

#define STUB(field) ((int32_t)offsetof(struct dt_return_slot, field))
#define RETURNS(field) ((int32_t)offsetof(struct dt_returns, field))

#define ENTRY_CLOCK 40
#define ENTRY_RA 56
#define EXIT_RA 48
#define SAVED_RAX 32

/* ---- in an entry trampoline ------------------------------------------------------------------ */

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

/* rsi = address of the hint, rbx = struct dt_returns; rax, rcx are lost. */
static void emit_find_hint(struct emitter *e, const struct tramp_env *env, uint32_t id)
{
	emit_mov_imm(e, RBX, env->returns.v);
	emit_add_imm32(e, RCX, -(int32_t)(uint32_t)env->slots.v);
	emit_shr_imm(e, RCX, DT_SLOT_SHIFT - 2); /* the slot's index * 4 */
	emit_load32(e, RCX, mem_index(RBX, RCX, 1, RETURNS(tables)));
	emit_add(e, RCX, RBX); /* its table           */
	emit_imul_mem32_imm(e, RAX, mem_at(RSP, ENTRY_RA), DT_RETURN_MULTIPLIER);
	emit_add_imm32(e, RAX, (int32_t)(id * DT_RETURN_ID_MULTIPLIER));
	emit_shr_imm(e, RAX, DT_RETURN_HASH_SHIFT);
	emit_and_mem32(e, RAX, mem_at(RCX, offsetof(struct dt_return_table, mask)));
	emit_lea(e, RSI, mem_index(RCX, RAX, 4, offsetof(struct dt_return_table, hints)));
}

/* rcx = slot of the stub whose offset from stub 0 is in rax, rdx = the stub; rbx = struct
 * dt_returns. */
static void emit_place(struct emitter *e, const struct tramp_env *env)
{
	emit_lea(e, RDX, mem_index(RBX, RAX, 1, (int32_t)taddr_diff(env->stubs, env->returns)));
	emit_lea(e, RCX,
		 mem_index(RBX, RAX, 1u << (DT_RETURN_SHIFT - DT_STUB_SHIFT), RETURNS(slots)));
}

/* Takes the stub that the hint names (R3). The word on the stack leads to it before it is in use
 * (R2); should that fail, what was there is the stub's own return address. */
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
	emit_mov_imm(e, RAX, 0);
	emit_cmp_mem(e, RAX, mem_at(RCX, STUB(sp)));
	emit_jcc(e, CC_NE, &l->miss);
	emit_lea(e, RBX, mem_at(RSP, ENTRY_RA));
	emit_store(e, mem_at(RSP, ENTRY_RA), RDX);
	emit_cmpxchg(e, mem_at(RCX, STUB(sp)), RBX);
	emit_jcc(e, CC_NE, &l->raced);
	emit_load32(e, RAX, mem_at(RCX, STUB(next)));
	emit_store32(e, mem_at(RSI, 0), RAX);
}

void exit_emit_take(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    struct exit_labels *l)
{
	emit_find_hint(e, env, event->id);
	emit_claim(e, env, event->id, l);
	emit_bind(e, &l->taken);
	emit_load(e, RAX, mem_at(RSP, ENTRY_CLOCK));
	emit_store(e, mem_at(RCX, STUB(start)), RAX);
	record_emit_restore(e, false);
	exit_emit_restore(e);
	emit_lea(e, RSP, mem_at(RSP, 8));
	emit_jmp_mem(e, mem_at(RSP, -8));
	emit_bind(e, &l->out);
}

void exit_emit_miss(struct emitter *e, const struct tramp_env *env, struct exit_labels *l)
{
	struct label none = { 0 };

	emit_bind(e, &l->raced);
	emit_load(e, RAX, mem_at(RCX, STUB(ra)));
	emit_store(e, mem_at(RSP, ENTRY_RA), RAX);
	emit_bind(e, &l->miss);
	emit_lea(e, RAX, mem_at(RSP, ENTRY_RA));
	emit_lea(e, RDX, mem_rip(taddr_add(emit_pc(e), 7)));
	l->site_field = e->size; /* exit_emit_site fills in the distance */
	emit_mov_imm(e, RBX, env->control.v);
	emit_call_mem(e, mem_at(RBX, (int32_t)offsetof(struct dt_control, slow)));
	emit_jrcxz(e, &none);
	emit_mov_imm(e, RBX, env->returns.v);
	emit_mov32(e, RAX, RCX);
	emit_add_imm32(e, RAX, -(int32_t)(uint32_t)(env->returns.v + RETURNS(slots)));
	emit_shr_imm(e, RAX, DT_RETURN_SHIFT - DT_STUB_SHIFT);
	emit_place(e, env);
	emit_store(e, mem_at(RSP, ENTRY_RA), RDX);
	emit_lea(e, RBX, mem_at(RSP, ENTRY_RA));
	emit_store(e, mem_at(RCX, STUB(sp)), RBX); /* no longer busy */
	emit_jmp(e, &l->taken);
	emit_bind(e, &none);
	emit_jmp(e, &l->out);
}

void exit_emit_site(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    const struct exit_labels *l)
{
	struct dt_return_site site = { .body = event->off.v, .exit = env->exit.v, .id = event->id };
	int32_t distance = (int32_t)(e->size - l->site_field);

	if (!emit_failed(e))
		memcpy(e->bytes + l->site_field - sizeof(distance), &distance, sizeof(distance));
	emit_bytes(e, &site, sizeof(site));
}

/* ---- the exit -------------------------------------------------------------------------------- */

struct exit_code_labels {
	struct record_labels record;
	struct label elsewhere, unrecorded, lost;
};

/* rsi = the stub's slot: is it in use, and by this process (R2)? rax is lost. */
static void emit_judge(struct emitter *e, struct exit_code_labels *l)
{
	emit_load(e, RAX, mem_at(RSI, STUB(sp)));
	emit_or(e, RAX, RAX);
	emit_jcc(e, CC_LE, &l->unrecorded);
}

/* rsi = the stub's slot. */
static void emit_identify(struct emitter *e, const struct tramp_env *env,
			  struct exit_code_labels *l)
{
	emit_load32(e, RAX, mem_at(RSP, EXIT_RA));
	emit_shl_imm(e, RAX, DT_RETURN_SHIFT);
	emit_mov_imm(e, RSI, taddr_add(env->returns, RETURNS(slots)).v);
	emit_add(e, RSI, RAX);
	emit_judge(e, l);
}

/*
 * rcx = the slot of this thread; rax, rbx are lost. Most calls return on the thread that took the
 * stub, so that its slot is looked at first. FS is read, not trusted: the function may have changed
 * it, and a thread may have none (H18). That costs 0.2 of a clock reading.
 */
static void emit_same_thread(struct emitter *e, const struct tramp_env *env,
			     struct exit_code_labels *l)
{
	emit_load32(e, RCX, mem_at(RSI, STUB(thread)));
	emit_mov_imm(e, RAX, env->slots.v);
	emit_add(e, RCX, RAX);
	emit_rdfsbase(e, RAX);
	emit_not(e, RAX);
	emit_cmp_mem(e, RAX, mem_at(RCX, offsetof(struct dt_slot, key)));
	emit_jcc(e, CC_NE, &l->elsewhere);
	emit_load(e, RBX, mem_at(RCX, offsetof(struct dt_slot, tid_offset)));
	emit_load32(e, RBX, mem_fs(RBX, 0));
	emit_cmp_mem32(e, RBX, mem_at(RCX, offsetof(struct dt_slot, tid)));
	emit_jcc(e, CC_NE, &l->elsewhere);
}

/* The event, at pool + eax; rdx = clock. Its header is stored by the caller, with rcx, once
 * more. */
static void emit_exit_event(struct emitter *e, const struct tramp_env *env, uint64_t multiplier)
{
	struct label forward = { 0 };

	emit_mov32(e, RBX, RAX);
	emit_mov_imm(e, RAX, env->pool.v);
	emit_add(e, RBX, RAX);
	emit_mov(e, RCX, RDX);
	emit_shl_imm(e, RCX, DT_EVENT_ID_BITS);
	emit_load32(e, RAX, mem_at(RSI, STUB(id)));
	emit_lea(e, RCX, mem_index(RCX, RAX, 1, (int32_t)DT_EVENT_PENDING + 1));
	emit_store(e, mem_at(RBX, 0), RCX); /* B4                  */
	emit_load(e, RAX, mem_at(RSP, SAVED_RAX));
	emit_store(e, mem_at(RBX, EXIT_EVENT_RET), RAX);
	emit_mov(e, RAX, RDX);
	emit_sub_mem(e, RAX, mem_at(RSI, STUB(start)));
	emit_jcc_short(e, CC_AE, &forward);
	emit_mov_imm(e, RAX, 0); /* another CPU's clock */
	emit_bind(e, &forward);
	emit_mov_imm(e, RDX, multiplier);
	emit_mul(e, RDX);
	emit_shrd_imm(e, RAX, RDX, 32);
	emit_store(e, mem_at(RBX, EXIT_EVENT_DURATION), RAX);
}

/* The stub is free, then the return address takes its index's place (R2); its hint leads to it.
 * rax, rdx are lost. */
static void emit_give_back(struct emitter *e, const struct tramp_env *env)
{
	emit_mov_imm(e, RAX, 0);
	emit_store(e, mem_at(RSI, STUB(sp)), RAX);
	emit_load32(e, RDX, mem_at(RSI, STUB(hint)));
	emit_mov_imm(e, RAX, env->returns.v);
	emit_add(e, RDX, RAX);
	emit_load32(e, RAX, mem_at(RSP, EXIT_RA));
	emit_store32(e, mem_at(RDX, 0), RAX);
	emit_load(e, RAX, mem_at(RSI, STUB(ra)));
	emit_store(e, mem_at(RSP, EXIT_RA), RAX);
}

/* Out of line: the slow path for the exit event; returns that aren't recorded. */
static void emit_exit_slow(struct emitter *e, const struct tramp_env *env,
			   struct exit_code_labels *l)
{
	struct label inherited = { 0 };

	emit_bind(e, &l->elsewhere);
	record_emit_find_slot(e, env, &l->record.slow);
	emit_jmp(e, &l->record.reserve);
	emit_bind(e, &l->record.slow);
	emit_load32(e, RAX, mem_at(RSI, STUB(id)));
	emit_add_imm32(e, RAX, 1);
	record_emit_slow_call(e, env, EXIT_EVENT_SIZE);
	emit_jrcxz(e, &l->lost);
	emit_judge(e, l); /* the first hit in a forked child: it was its parent's call */
	emit_jmp(e, &l->record.reserve);
	emit_bind(e, &l->unrecorded);
	emit_jcc(e, CC_NE, &inherited);
	emit_mov_imm(e, RAX, env->returns.v);
	emit_inc_mem(e, mem_at(RAX, RETURNS(stray)));
	emit_bind(e, &inherited);
	emit_bind(e, &l->lost);
	emit_give_back(e, env);
	emit_jmp(e, &l->record.out);
}

bool exit_emit_code(const struct tramp_env *env, uint64_t multiplier, uint8_t *bytes, size_t room,
		    taddr pc, size_t *ret_size)
{
	struct exit_code_labels l = { 0 };
	struct emitter e;

	emit_init(&e, bytes, room, pc);
	emit_push(&e, RSI);
	record_emit_save(&e, false);
	emit_identify(&e, env, &l);
	emit_same_thread(&e, env, &l);
	record_emit_reserve(&e, EXIT_EVENT_SIZE, &l.record);
	emit_exit_event(&e, env, multiplier);
	emit_give_back(&e, env);
	emit_xor_imm(&e, RCX, DT_EVENT_PENDING);
	emit_store(&e, mem_at(RBX, 0), RCX);
	emit_bind(&e, &l.record.out);
	record_emit_restore(&e, false);
	emit_pop(&e, RSI);
	emit_ret(&e);
	emit_exit_slow(&e, env, &l);
	*ret_size = e.size;
	return !emit_failed(&e);
}

bool exit_emit_stubs(const struct tramp_env *env, uint32_t first, uint32_t end, uint8_t *bytes)
{
	struct emitter e;

	for (uint32_t i = first; i < end; i++) {
		taddr slot =
			taddr_add(env->returns, RETURNS(slots) + ((int64_t)i << DT_RETURN_SHIFT));

		emit_init(&e, bytes + (size_t)(i - first) * DT_STUB_SIZE, DT_STUB_SIZE,
			  taddr_add(env->stubs, (int64_t)i * DT_STUB_SIZE));
		emit_call_mem(&e, mem_rip(taddr_add(slot, STUB(body))));
		emit_push_imm32(&e, (int32_t)i);
		emit_jmp_mem(&e, mem_rip(taddr_add(slot, STUB(exit))));
		emit_align(&e, DT_STUB_SIZE);
		if (emit_failed(&e))
			return false;
	}
	return true;
}
