/*
 * exit_code.c - the stubs, and the code that they jump to, which records an exit.
 *
 * The stack of that code. The stub has put its index in the place of the return address:
 *
 *	rsp+48	index; then the return address, which the last `ret` takes (H8)
 *	rsp+40	rsi
 *	rsp+32	rax, and below it the other registers saved by record_emit_save
 *
 * All exits with rax and the duration share one such code. A tracepoint whose exit records other
 * fields has its own, after its trampoline.
 */
#include "control/exits/code/exit_stub.h"

#include <assert.h>
#include <string.h>

#include "shared/frame.h"
#include "shared/layout.h"
#include "control/base/cleanup.h"
#include "control/exits/code/exit_code.h"
#include "control/codegen/filter_code.h"
#include "control/codegen/gather_code.h"
#include "control/codegen/record_code.h"
#include "control/codegen/slot_code.h"
#include "control/codegen/tramp_frame.h"

#define STUB(field) ((int32_t)offsetof(struct dt_return_slot, field))
#define RETURNS(field) ((int32_t)offsetof(struct dt_returns, field))
#define STATE(field) ((int32_t)offsetof(struct dt_state, field))

/* The event NAME_exit of most functions. */
static const struct tramp_event plain_exit = {
	.size = EXIT_EVENT_SIZE,
	.fields = { { .source = SOURCE_REGISTER, .reg = RAX, .offset = EXIT_EVENT_RET },
		    { .source = SOURCE_DURATION, .offset = EXIT_EVENT_DURATION } },
	.field_count = 2,
};

struct exit_code_labels {
	struct record_labels record;
	struct label elsewhere, unrecorded, lost, unwanted;
	size_t program_field;
};

const struct tramp_event *exit_plain_event(void)
{
	return &plain_exit;
}

void exit_emit_row(struct emitter *e, int32_t depth)
{
	depth += 8; /* the return address is popped, too */
	emit_row(e, depth, DT_FRAME_RETURNS, tramp_frame_kept(depth));
}

/* rsi = the stub's slot. Jumps to `unrecorded` unless the stub is in use, by this process (R2). rax
 * is lost. */
static void emit_judge(struct emitter *e, struct label *unrecorded)
{
	emit_load(e, RAX, mem_at(RSI, STUB(sp)));
	emit_or(e, RAX, RAX);
	emit_jcc(e, CC_LE, unrecorded);
}

void exit_emit_identify(struct emitter *e, const struct tramp_env *env, struct label *unrecorded)
{
	emit_load32(e, RAX, mem_at(RSP, EXIT_RA));
	emit_shl_imm(e, RAX, DT_RETURN_SHIFT);
	emit_mov_imm(e, RSI, taddr_add(env->returns, RETURNS(slots)).v);
	emit_add(e, RSI, RAX);
	emit_judge(e, unrecorded);
}

/*
 * rcx = the slot of this thread; rax, rbx are lost. Most calls return on the thread that took the
 * stub, so its slot is tried first. FS is read and compared: the function may have changed it, and
 * a thread may have none (H18). That costs 0.2 of a clock reading.
 */
static void emit_same_thread(struct emitter *e, const struct tramp_env *env,
			     struct exit_code_labels *l)
{
	emit_load_size(e, RAX, mem_at(RSI, STUB(thread)), 2);
	emit_mov_imm(e, RCX, env->slots.v);
	emit_lea(e, RCX, mem_index(RCX, RAX, 8, 0));
	emit_rdfsbase(e, RAX);
	emit_not(e, RAX);
	emit_cmp_mem(e, RAX, mem_at(RCX, offsetof(struct dt_slot, key)));
	emit_jcc(e, CC_NE, &l->elsewhere);
	emit_load(e, RBX, mem_at(RCX, offsetof(struct dt_slot, tid_offset)));
	emit_load32(e, RBX, mem_fs(RBX, 0));
	emit_cmp_mem32(e, RBX, mem_at(RCX, offsetof(struct dt_slot, tid)));
	emit_jcc(e, CC_NE, &l->elsewhere);
}

void exit_emit_duration(struct emitter *e, const struct tramp_env *env)
{
	struct label forward = { 0 };

	emit_mov(e, RAX, RDX);
	emit_sub_mem(e, RAX, mem_at(RSI, STUB(start)));
	emit_jcc_short(e, CC_AE, &forward);
	emit_mov_imm(e, RAX, 0); /* another CPU's clock */
	emit_bind(e, &forward);
	emit_mov_imm(e, RDX, env->ns_multiplier);
	emit_mul(e, RDX);
	emit_shrd_imm(e, RAX, RDX, 32);
}

/* Copies the entry's part of a pair (program.h) to the event at rbx. rax, rdx are lost. */
static void emit_entry_part(struct emitter *e, const struct tramp_event *event)
{
	emit_load(e, RAX, mem_at(RSI, STUB(start)));
	emit_store(e, mem_at(RBX, 8), RAX);
	if (!event->pair_size)
		return;
	emit_load(e, RDX, mem_at(RSI, (int32_t)DT_TIMES_AT(values)));
	for (int32_t at = 16; at < 16 + (int32_t)event->pair_size; at += 8) {
		emit_load(e, RAX, mem_at(RDX, at));
		emit_store(e, mem_at(RBX, at), RAX);
	}
}

/* Writes the event, which ends at pool + ebx; rdx = clock. The caller stores the header in rcx once
 * more, without the pending mark. */
static void emit_exit_event(struct emitter *e, const struct tramp_env *env,
			    const struct tramp_event *event)
{
	bool timed = false;

	record_emit_place(e, env, event->size);
	emit_mov(e, RCX, RDX);
	emit_shl_imm(e, RCX, DT_EVENT_ID_BITS);
	emit_load32(e, RAX, mem_at(RSI, STUB(id)));
	emit_lea(e, RCX, mem_index(RCX, RAX, 1, (int32_t)DT_EVENT_PENDING + 1));
	emit_store(e, mem_at(RBX, 0), RCX); /* B4                  */
	for (size_t i = 0; i < event->field_count; i++) {
		if (event->fields[i].source != SOURCE_DURATION)
			record_emit_field(e, 0, EXIT_RA, &event->fields[i]);
	}
	for (size_t i = 0; i < event->field_count; i++) {
		if (event->fields[i].source != SOURCE_DURATION)
			continue;
		if (!timed)
			exit_emit_duration(e, env);
		timed = true;
		emit_store(e, mem_at(RBX, event->fields[i].offset), RAX);
	}
	if (event->is_pair)
		emit_entry_part(e, event);
}

void exit_emit_give_back(struct emitter *e, const struct tramp_env *env)
{
	emit_load32(e, RDX, mem_at(RSI, STUB(hint)));
	emit_mov_imm(e, RAX, env->returns.v);
	emit_add(e, RDX, RAX);
	emit_load32(e, RAX, mem_at(RSP, EXIT_RA));
	emit_store32(e, mem_at(RDX, 0), RAX);
	/* before another thread may take the slot, if it is a late one (R9) */
	emit_load(e, RAX, mem_at(RSI, STUB(ra)));
	emit_store_imm(e, mem_at(RSI, STUB(sp)), 0);
	emit_dec_mem16(e, mem_at(RSI, STUB(use)));
	emit_store(e, mem_at(RSP, EXIT_RA), RAX);
}

void exit_emit_unrecorded(struct emitter *e, const struct tramp_env *env)
{
	struct label inherited = { 0 };

	emit_jcc(e, CC_NE, &inherited);
	emit_mov_imm(e, RAX, env->returns.v);
	emit_inc_mem(e, mem_at(RAX, RETURNS(stray)));
	/* it is free already, and will be given back once more */
	emit_inc_mem16(e, mem_at(RSI, STUB(use)));
	emit_bind(e, &inherited);
}

void exit_emit_fresh(struct emitter *e, const struct tramp_env *env, struct label *unrecorded,
		     struct label *back)
{
	int32_t clockless = STATE(inherited.clockless) - STATE(pid);
	struct label known = { 0 }, none = { 0 }, unsure = { 0 };

	emit_note(e, "the first hit in a forked child? then the call was its parent's");
	emit_mov_imm(e, RAX, record_state_word(env, STATE(pid)).v);
	emit_cmp_mem32_imm(e, mem_at(RAX, 0), 0);
	emit_jcc_short(e, CC_E, &unsure);
	emit_note(e, "may a thread have no clock? ask the agent");
	emit_cmp_mem32_imm(e, mem_at(RAX, clockless), 0);
	emit_jcc(e, CC_E, &known);
	emit_bind(e, &unsure);
	emit_load32(e, RAX, mem_at(RSI, STUB(id)));
	record_emit_slow_call(e, env, 0);
	emit_jrcxz(e, &none);
	emit_judge(e, unrecorded);
	emit_jmp(e, &known);
	emit_bind(e, &none);
	emit_jmp(e, back);
	emit_bind(e, &known);
}

/* Out of line: the slow path for the exit event, and returns that aren't recorded. */
static void emit_exit_slow(struct emitter *e, const struct tramp_env *env, uint32_t size,
			   struct exit_code_labels *l)
{
	emit_bind(e, &l->elsewhere);
	slot_emit_find(e, env, &l->record.slow);
	emit_jmp(e, &l->record.reserve);
	emit_bind(e, &l->record.slow);
	emit_load32(e, RAX, mem_at(RSI, STUB(id)));
	emit_add_imm32(e, RAX, 1);
	record_emit_slow_call(e, env, size);
	emit_jrcxz(e, &l->lost);
	/* the first hit in a forked child: the call was its parent's */
	emit_judge(e, &l->unrecorded);
	emit_jmp(e, &l->record.reserve);
	emit_bind(e, &l->unrecorded);
	exit_emit_unrecorded(e, env);
	emit_bind(e, &l->lost);
	emit_bind(e, &l->unwanted);
	exit_emit_give_back(e, env);
	emit_jmp(e, &l->record.out);
}

void exit_emit_filter(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, struct label *unwanted)
{
	if (event->filters_duration) {
		record_emit_clock(e);
		exit_emit_duration(e, env);
		emit_store(e, mem_at(RSI, (int32_t)DT_KEPT_AT(DT_KEPT_DURATION)), RAX);
	}
	filter_emit(e, event->filter, EXIT_RA, true, unwanted);
}

/* Has the agent write the event; rcx = the slot shows that this process and thread may. */
static void emit_gathered_exit(struct emitter *e, const struct tramp_env *env,
			       const struct tramp_event *event, struct exit_code_labels *l)
{
	struct label unwritten = { 0 };

	emit_bind(e, &l->record.reserve);
	record_emit_clock(e);
	exit_emit_duration(e, env);
	emit_mov(e, RDX, RAX);
	gather_emit_event(e, env, event, EXIT_RA, true, &unwritten, &l->program_field);
	emit_bind(e, &unwritten);
	exit_emit_give_back(e, env);
}

static void emit_plain_exit(struct emitter *e, const struct tramp_env *env,
			    const struct tramp_event *event, struct exit_code_labels *l)
{
	emit_bind(e, &l->record.reserve);
	record_emit_reserve(e, event->size, &l->record);
	emit_exit_event(e, env, event);
	exit_emit_give_back(e, env);
	emit_xor_imm(e, RCX, DT_EVENT_PENDING);
	emit_store(e, mem_at(RBX, 0), RCX);
}

void exit_emit_records(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event)
{
	struct exit_code_labels l = { 0 };

	exit_emit_row(e, 0);
	emit_push(e, RSI);
	record_emit_save(e, false);
	exit_emit_identify(e, env, &l.unrecorded);
	if (event->filters_duration) /* which needs the clock */
		exit_emit_fresh(e, env, &l.unrecorded, &l.lost);
	if (event->filter)
		exit_emit_filter(e, env, event, &l.unwanted);
	filter_emit_limits(e, env, &event->limits, &l.unwanted);
	emit_same_thread(e, env, &l);
	if (event->program)
		emit_gathered_exit(e, env, event, &l);
	else
		emit_plain_exit(e, env, event, &l);
	emit_bind(e, &l.record.out);
	record_emit_restore(e, false);
	emit_pop(e, RSI);
	emit_ret(e);
	exit_emit_row(e, EXIT_RA);
	emit_exit_slow(e, env, event->program ? sizeof(uint64_t) : event->size, &l);
	if (event->program)
		gather_emit_program(e, event, l.program_field);
}

bool exit_emit_code(const struct tramp_env *env, uint8_t *bytes, size_t room, taddr pc,
		    size_t *ret_size)
{
	_cleanup_(tramp_frame_free) struct emit_rows rows = { 0 };
	struct emitter e;

	emit_init(&e, bytes, room, pc);
	e.rows = &rows;
	exit_emit_records(&e, env, &plain_exit);
	tramp_frame_end(&e, pc);
	*ret_size = e.size;
	return !emit_failed(&e);
}

size_t exit_room(const struct tramp_event *event)
{
	const struct tramp_event *own = event->at_exit;

	if (!event->exit)
		return 0;
	return EXIT_ENTRY_ROOM +
	       (own ? EXIT_CODE_ROOM + (own->field_count + own->kept_count) * EXIT_FIELD_ROOM +
			      gather_room(own) + filter_room(own) + own->pair_size * 2 :
		      0) +
	       (event->is_pair ? 2 * event->field_count * EXIT_FIELD_ROOM : 0);
}

bool exit_emit_stubs(const struct tramp_env *env, uint32_t first, uint32_t end, uint8_t *bytes)
{
	struct emitter e;

	assert(first <= end && end <= DT_STUBS_MAX);
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
