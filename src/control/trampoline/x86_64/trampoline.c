/*
 * A trampoline, for one tracepoint on a site of two moved instructions:
 *
 *	start:	jmp  [switch]		to `on`; to `off` while the tracepoint is disabled, to
 *				`counted` while it is demoted (session/budget)
 *	on:	save			record_code.h draws the stack
 *		rcx = the thread's slot, by FS base; unknown or another thread's: slow
 *	reserve: rbx = slot.reserve, rdx = clock, by cmpxchg; no room, clock gap or step back: slow
 *		header and fields to the chunk
 *	out:	restore
 *	off:	first instruction, moved
 *		second instruction, moved
 *		jmp  back
 *	slow:	call dt_slow		rcx = slot: on to reserve; 0: on to out
 *	counted: save, one more hit, restore, jmp off
 *	counted_on: the same, jmp on	where a filter leaves hits out, and there is a budget
 *	switch:	address of `on`, `off` or `counted`
 */
#include "control/trampoline/trampoline.h"

#include <assert.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/code/jump.h"
#include "control/codegen/filter_code.h"
#include "control/codegen/find_code.h"
#include "control/codegen/gather_code.h"
#include "control/codegen/record_code.h"
#include "control/codegen/shared_code.h"
#include "control/codegen/slot_code.h"
#include "control/codegen/tramp_frame.h"
#include "control/codegen/watch_code.h"
#include "control/exits/code/exit_stub.h"
#include "control/tracers/code/call_code.h"
#include "control/tracers/code/count_code.h"
#include "control/tracers/code/foreign_code.h"
#include "shared/layout.h"
#include "shared/program.h"

#define RED_ZONE DT_RED_ZONE
#define GO_STACK_GUARD 16 /* g.stackguard0 */
#define SLOT(field) ((int32_t)offsetof(struct dt_slot, field))

/* Upper bounds, checked by the emitter's own limit. */
#define INSN_ROOM 64
#define EVENT_ROOM 320
#define FIELD_ROOM 40
#define END_ROOM 64 /* with a stack check */

struct event_labels {
	struct record_labels record;
	struct exit_labels exit;
	struct foreign_labels foreign;
	struct count_key_labels key;
	struct slot_labels near;
	size_t program_field;
};

size_t trampoline_room(const struct tramp *tramp)
{
	size_t room = END_ROOM + TRAMP_FRAME_ROOM +
		      tramp->insn_count * (INSN_ROOM + TRAMP_FRAME_INSN_ROOM);

	for (size_t i = 0; i < tramp->event_count; i++)
		room += EVENT_ROOM + TRAMP_FRAME_EVENT_ROOM +
			tramp->events[i]->field_count * FIELD_ROOM + exit_room(tramp->events[i]) +
			count_room(tramp->events[i]) + foreign_room(tramp->events[i]) +
			gather_room(tramp->events[i]) + filter_room(tramp->events[i]);
	return room;
}

/* Bytes between rsp while the tracepoint records and rsp at the site. */
static int32_t saved_size(const struct tramp_event *event)
{
	return RECORD_SAVED_SIZE + (event->keep_red_zone ? RED_ZONE : 0) + (event->exit ? 16 : 0);
}

/* Starts an unwind row: from here on the code records or restores. For code that is jumped to. */
static void emit_recording_row(struct emitter *e, const struct tramp_event *event)
{
	emit_row(e, saved_size(event), event->origin, tramp_frame_kept(saved_size(event)));
}

/* Writes a field. With an exit, rsi is in use by now, and its value is on the stack. */
static void emit_entry_field(struct emitter *e, const struct tramp_event *event,
			     struct tramp_field field)
{
	if (event->exit && field.source == SOURCE_REGISTER && field.reg == RSI) {
		field.source = SOURCE_STACK;
		field.disp = EXIT_SAVED_RSI - saved_size(event);
		field.load = sizeof(uint64_t);
	}
	record_emit_field(e, 0, saved_size(event), &field);
}

/* Writes the event, which ends at pool + ebx (B4). */
static void emit_write(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event)
{
	bool payload = event->field_count > 0;

	uint32_t id = event->id | (payload ? DT_EVENT_PENDING : 0);

	if (event->routine.v) {
		shared_emit_call(e, event->routine, id);
	} else {
		record_emit_place(e, env, event->size);
		emit_note(e, "header: clock and id");
		emit_shl_imm(e, RDX, DT_EVENT_ID_BITS);
		emit_or_imm(e, RDX, (int32_t)id);
		emit_store(e, mem_at(RBX, 0), RDX);
	}
	if (!payload)
		return;
	emit_note(e, "the fields");
	for (size_t i = 0; i < event->field_count; i++)
		emit_entry_field(e, event, event->fields[i]);
	emit_note(e, "complete");
	emit_xor_imm(e, RDX, DT_EVENT_PENDING);
	emit_store(e, mem_at(RBX, 0), RDX);
}

static bool has_fast_path(const struct tramp_event *event)
{
	return !event->program && tramp_is_recorded(event) && !tramp_is_paired(event);
}

bool trampoline_can_share(const struct tramp_event *event)
{
	return has_fast_path(event) && !tramp_event_is_own(event) && shared_is_for(event->size) &&
	       (!event->exit || exit_can_share(event));
}

uint32_t trampoline_shares(const struct tramp_event *event)
{
	return event->size | (event->exit ? SHARED_EXIT : 0);
}

bool trampoline_emit_shared(const struct tramp_env *env, uint32_t kind, uint8_t *bytes, size_t room,
			    taddr pc, size_t *ret_size)
{
	if (kind == SHARED_STUB)
		return exit_emit_taking(env, bytes, room, pc, ret_size);
	return shared_emit(env, kind, bytes, room, pc, ret_size);
}

/* Has the trampoline write the event itself. */
static void emit_fast(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, struct event_labels *l)
{
	if (event->routine.v) {
		emit_write(e, env, event);
		if (event->exit) {
			emit_note(e, "a return stub for this call (shared code)");
			exit_emit_take_shared(e, event, &l->exit);
		}
		return;
	}
	if (event->exit)
		slot_emit_near(e, env, &l->near);
	else
		slot_emit_find(e, env, &l->record.slow);
	emit_bind(e, &l->record.reserve);
	if (event->exit)
		slot_emit_table(e);
	record_emit_reserve(e, event->size, &l->record);
	if (event->exit)
		exit_emit_clock(e);
	emit_write(e, env, event);
	emit_note(e, "a return stub for this call");
	if (event->exit)
		exit_emit_take(e, env, event, &l->exit);
}

/* Takes a return stub where the trampoline hasn't looked for the thread's slot. */
static void emit_stub(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, struct event_labels *l)
{
	slot_emit_near(e, env, &l->near);
	emit_note(e, "the clock, in rdx: the thread has one");
	record_emit_clock(e);
	exit_emit_clock(e);
	slot_emit_table(e);
	emit_note(e, "a return stub for this call");
	exit_emit_take(e, env, event, &l->exit);
}

/* Has the agent evaluate a condition; the event that it writes is dropped. */
static void emit_condition(struct emitter *e, const struct tramp_env *env,
			   const struct tramp_event *event, struct event_labels *l)
{
	int32_t image = (int32_t)DT_ROUND_UP(event->program->size_max, 16);

	emit_lea(e, RSP, mem_at(RSP, -image));
	gather_emit_call(e, env, event, image, saved_size(event) + image, &l->program_field);
	emit_lea(e, RSP, mem_at(RSP, image));
	emit_or(e, RAX, RAX);
	emit_jcc(e, CC_E, &l->record.out);
}

/* Counts the hit, or calls the foreign function. An exit is prepared as with an event. */
static void emit_unrecorded(struct emitter *e, const struct tramp_env *env,
			    const struct tramp_event *event, struct event_labels *l)
{
	if (!event->foreign.function.v && event->program && !event->count.keys.table.v)
		emit_condition(e, env, event, l);
	if (event->foreign.function.v)
		foreign_emit_hit(e, env, event, saved_size(event), &l->foreign, &l->record.out);
	if (event->count.cell.v)
		count_emit_hit(e, env, event, saved_size(event), &l->key, &l->record.out);
	if (event->exit)
		emit_stub(e, env, event, l);
}

/* Has the agent write the event; the exit is recorded only if the agent did. */
static void emit_gathered(struct emitter *e, const struct tramp_env *env,
			  const struct tramp_event *event, struct event_labels *l)
{
	emit_note(e, "the agent gathers the values and writes the event");
	gather_emit_event(e, env, event, saved_size(event), false, &l->record.out,
			  &l->program_field);
	if (event->exit)
		emit_stub(e, env, event, l);
}

/* Has the trampoline to make the stack check of a Go function? It is made once for all events at
 * the function's start: its result changes when the scheduler asks meanwhile. */
static bool checks_stack(const struct tramp *tramp)
{
	for (size_t i = 0; i < tramp->event_count; i++) {
		const struct tramp_event *event = tramp->events[i];

		if (!event->check_length || event->insn || (event->exit && !event->is_go) ||
		    event->guard)
			return false;
	}
	return tramp->event_count > 0;
}

/* Jumps to `begins` if the function will call runtime.morestack and begin anew. Nothing is saved:
 * the function's own check overwrites the same flags and the same r12, and the goroutine's stack
 * may have no room for more than the call of morestack. */
static void emit_stack_check(struct emitter *e, const struct tramp_event *event,
			     struct label *begins)
{
	emit_note(e, "no room on the goroutine's stack? the function begins anew");
	if (event->check_frame)
		emit_lea(e, R12, mem_at(RSP, -event->check_frame));
	emit_cmp_mem(e, event->check_frame ? R12 : RSP, mem_at(R14, GO_STACK_GUARD));
	emit_jcc(e, CC_BE, begins);
}

/* After the recording: goes on behind the function's own check. */
static void emit_after_check(struct emitter *e, const struct tramp *tramp, struct label *begins)
{
	emit_note(e, "checked: on behind the function's own check");
	emit_jmp_to(e, taddr_add(tramp->insns[0].pc, tramp->events[0]->check_length));
	emit_bind(e, begins);
}

static void emit_event(struct emitter *e, const struct tramp_env *env, struct tramp_event *event,
		       struct event_labels *l)
{
	struct mem word = mem_rip(taddr_of(0));

	/* emit_data fills in the operand: the word's place isn't known yet */
	word.absolute = taddr_add(emit_pc(e), 6);
	emit_note(e, "on: go on; off: skip the recording");
	emit_jmp_mem(e, word);
	event->switch_offset = (uint32_t)e->size;
	event->on = emit_pc(e);
	emit_note(e, "room for the return stub");
	if (event->exit)
		exit_emit_save(e);
	record_emit_save(e, event->keep_red_zone);
	if (event->exit)
		exit_emit_again(e, env, event, &l->exit);
	gather_emit_touch(e, event);
	if (event->filter)
		filter_emit(e, event->filter, saved_size(event), false, &l->record.out);
	filter_emit_limits(e, env, &event->limits, &l->record.out);
	watch_emit(e, env, event);
	if (event->finds)
		find_emit(e, env, event->keep_red_zone);
	if (event->leaves)
		exit_emit_leave(e, env, &l->exit);
	if (!tramp_is_recorded(event))
		emit_unrecorded(e, env, event, l);
	else if (tramp_is_paired(event))
		emit_stub(e, env, event, l);
	else if (event->program)
		emit_gathered(e, env, event, l);
	else if (!tramp_event_is_own(event))
		emit_fast(e, env, event, l);
	emit_bind(e, &l->record.out);
	emit_recording_row(e, event);
	record_emit_restore(e, event->keep_red_zone);
	if (event->exit)
		exit_emit_restore(e);
	event->off = emit_pc(e);
}

/* Jumps to l->out if rcx is 0, else to l->reserve. */
static void emit_lost(struct emitter *e, struct record_labels *l)
{
	struct label lost = { 0 };

	if (emit_is_near(e, &l->out)) {
		emit_jrcxz(e, &l->out);
		emit_jmp(e, &l->reserve);
		return;
	}
	emit_jrcxz(e, &lost);
	emit_jmp(e, &l->reserve);
	emit_bind(e, &lost);
	emit_jmp(e, &l->out);
}

static void emit_slow(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, struct event_labels *l)
{
	emit_recording_row(e, event);
	if (has_fast_path(event) && !event->routine.v) {
		emit_bind(e, &l->record.slow);
		emit_note(e, "id of the event");
		emit_mov_imm(e, RAX, event->id);
		record_emit_slow_call(e, env, event->size);
		emit_note(e, "rcx = the slot, or 0: counted as lost");
		emit_lost(e, &l->record);
	}
	if (event->foreign.function.v)
		foreign_emit_slow(e, env, event, &l->foreign, &l->record.out);
	count_emit_slow(e, env, event, saved_size(event), &l->key, &l->record.out);
	if (!event->exit || event->routine.v)
		return;
	/* without a slot the slow path finds one: for the event, or for the stub */
	slot_emit_far(e, env, &l->near, has_fast_path(event) ? &l->record.slow : &l->exit.miss);
	emit_note(e, "no return stub is free: the agent finds one");
	exit_emit_miss(e, env, event, has_fast_path(event), &l->exit);
}

/* Counts the hit, and goes on there. Gives its start. */
static taddr emit_counted(struct emitter *e, const struct tramp_env *env,
			  const struct tramp_event *event, const struct tramp_count *count,
			  taddr to)
{
	struct label out = { 0 };
	taddr start = emit_pc(e);

	emit_row(e, 0, event->origin, 0);
	record_emit_save(e, event->keep_red_zone);
	count_emit_demoted(e, env, count, &out);
	emit_bind(e, &out);
	record_emit_restore(e, event->keep_red_zone);
	emit_jmp_to(e, to);
	return start;
}

/* Out of line: counts the hit of a demoted tracepoint, before anything of `on` has run; and of one
 * that isn't, before its filter is asked. */
static void emit_demoted(struct emitter *e, const struct tramp_env *env, struct tramp_event *event)
{
	if (!event->demoted.cell.v)
		return;
	emit_note(e, "demoted: only count the hit");
	event->counted = emit_counted(e, env, event, &event->demoted, event->off);
	if (!event->judged.cell.v)
		return;
	emit_note(e, "count the hit, before the filter is asked");
	event->counted_on = emit_counted(e, env, event, &event->judged, event->on);
}

/* Writes the code that the tracepoint's return stubs jump to. */
static void emit_exit(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event)
{
	if (event->foreign.function.v)
		foreign_emit_exit(e, env, event);
	else if (event->count.cell.v)
		count_emit_exit(e, env, event);
	else
		exit_emit_records(e, env, event->at_exit);
}

static void emit_program(struct emitter *e, const struct tramp_event *event,
			 const struct event_labels *l)
{
	if (tramp_is_paired(event) && l->exit.late_program_field)
		gather_emit_distance(e, l->exit.late_program_field);
	gather_emit_program(e, event,
			    tramp_is_paired(event)	 ? l->exit.program_field :
			    event->count.keys.table.v ? l->key.program_field :
							 l->program_field);
}

/* Writes the words that `jmp [switch]` reads, the distances to them, and the data of exits. */
static void emit_data(struct emitter *e, struct tramp *tramp, const struct tramp_env *env,
		      const struct event_labels *labels)
{
	emit_note(e, NULL); /* data */
	emit_align(e, sizeof(uint64_t));
	for (size_t i = 0; i < tramp->event_count && !emit_failed(e); i++) {
		struct tramp_event *event = tramp->events[i];

		if (event->guard)
			continue;
		int32_t distance = (int32_t)(e->size - event->switch_offset);

		memcpy(e->bytes + event->switch_offset - sizeof(distance), &distance,
		       sizeof(distance));
		event->switch_offset = (uint32_t)e->size;
		emit_u64(e, tramp_event_start(event, event->position).v);
		if (event->exit && exit_emit_site(e, env, event, &labels[i].exit))
			emit_exit(e, env, event);
		if (event->leaves)
			exit_emit_leave_site(e, event, &labels[i].exit);
		if (event->foreign.function.v)
			foreign_emit_data(e, event, saved_size(event), &labels[i].foreign);
		else if (event->program)
			emit_program(e, event, &labels[i]);
	}
}

static bool falls_through(const struct insn *insn)
{
	if (insn->flow == FLOW_STOP)
		return insn->zydis.mnemonic == ZYDIS_MNEMONIC_INT3; /* a handler may go on */
	return insn->flow != FLOW_JUMP && insn->flow != FLOW_JUMP_INDIRECT &&
	       insn->flow != FLOW_RETURN;
}

/* Guards a system call that might block SIGTRAP: the agent makes the call, or changes its
 * arguments. rcx and r11 are free at a `syscall`. */
static void emit_guard(struct emitter *e, const struct tramp_env *env, struct label *made)
{
	struct label make = { 0 };

	emit_note(e, "would it block SIGTRAP? ask the agent");
	emit_lea(e, RSP, mem_at(RSP, -RED_ZONE));
	emit_mov_imm(e, RCX, env->control.v);
	emit_call_mem(e, mem_at(RCX, (int32_t)offsetof(struct dt_control, guard)));
	emit_lea(e, RSP, mem_at(RSP, RED_ZONE));
	emit_jrcxz(e, &make);
	emit_jmp(e, made);
	emit_bind(e, &make);
}

/* Writes the jump back, with its distance in one cache line (P8). */
static void emit_back(struct emitter *e, struct tramp *tramp, const struct insn *last)
{
	tramp->back = taddr_of(0);
	if (!falls_through(last))
		return;
	emit_note(e, "align the jump: one store can change it");
	while (!emit_failed(e) && !jump_is_whole(emit_pc(e)))
		emit_nop(e);
	emit_note(e, "back to the code after the site");
	tramp->back = emit_pc(e);
	assert(emit_failed(e) || jump_is_whole(tramp->back)); /* P8 */
	emit_jmp_to(e, taddr_add(last->pc, last->length));
}

/* Writes the fast path: recording sequences and moved instructions in turn. */
static struct error *emit_body(struct emitter *e, struct tramp *tramp, const struct tramp_env *env,
			       struct event_labels *labels)
{
	const struct insn *last = &tramp->insns[tramp->insn_count - 1];
	size_t next = 0;

	for (size_t i = 0; i < tramp->insn_count; i++) {
		tramp->copies[i] = emit_pc(e);
		struct label made = { 0 }, begins = { 0 };
		bool checks = !i && checks_stack(tramp);
		bool guarded = false;
		uint8_t origin = (uint8_t)taddr_diff(tramp->insns[i].pc, tramp->insns[0].pc);

		emit_row(e, 0, origin, 0);
		if (checks)
			emit_stack_check(e, tramp->events[0], &begins);
		for (; next < tramp->event_count && tramp->events[next]->insn == i; next++) {
			guarded |= tramp->events[next]->guard;
			tramp->events[next]->is_checked = checks;
			tramp->events[next]->origin = origin;
			if (!tramp->events[next]->guard)
				emit_event(e, env, tramp->events[next], &labels[next]);
		}
		if (guarded)
			emit_guard(e, env, &made);
		if (checks)
			emit_after_check(e, tramp, &begins);
		emit_note(e, "the instruction, moved");
		struct error *error = relocate(&tramp->insns[i], e);
		if (error)
			return error;
		if (guarded)
			emit_bind(e, &made);
	}
	assert(next == tramp->event_count); /* sorted, and each at an instruction of the site */
	tramp->copies[tramp->insn_count] = emit_pc(e);
	emit_row(e, 0, (uint8_t)(taddr_diff(last->pc, tramp->insns[0].pc) + last->length), 0);
	emit_back(e, tramp, last);
	return NULL;
}

static struct error *emit_all(struct emitter *e, struct tramp *tramp, const struct tramp_env *env)
{
	struct event_labels labels[TRAMP_INSNS_MAX];

	memset(labels, 0, sizeof(labels));
	struct error *error = emit_body(e, tramp, env, labels);
	if (error)
		return error;
	for (size_t i = 0; i < tramp->event_count; i++) {
		if (!tramp_event_is_own(tramp->events[i]))
			emit_slow(e, env, tramp->events[i], &labels[i]);
		emit_demoted(e, env, tramp->events[i]);
	}
	emit_data(e, tramp, env, labels);
	tramp_frame_end(e, tramp->insns[0].pc);
	return NULL;
}

struct error *trampoline_emit(struct tramp *tramp, const struct tramp_env *env, uint8_t *bytes,
			      size_t room, taddr pc)
{
	_cleanup_(tramp_frame_free) struct emit_rows rows = { 0 };
	struct emitter e = { .failed = true };

	assert(tramp->insn_count >= 1 && tramp->insn_count <= TRAMP_INSNS_MAX);
	if (tramp->event_count > TRAMP_INSNS_MAX)
		return error_new(ERROR_REFUSED, "more than %d tracepoints at one place",
				 TRAMP_INSNS_MAX);
	/* most trampolines are short enough for short jumps */
	for (int wide = 0; wide < 2 && emit_failed(&e); wide++) {
		emit_init(&e, bytes, room, pc);
		e.tight = !wide;
		e.notes = env->notes;
		if (e.notes)
			e.notes->count = 0;
		e.rows = &rows;
		rows.count = 0;
		struct error *error = emit_all(&e, tramp, env);
		if (error)
			return error;
	}
	if (emit_failed(&e))
		return error_new(ERROR_REFUSED, "its trampoline is too long or out of reach");
	tramp->size = e.size;
	return NULL;
}
