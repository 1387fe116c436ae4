/*
 * The stack while the agent works:
 *
 *	rsp+frame	the saved registers (record_code.h)
 *	rsp+xmm		struct dt_regs: general registers, flags
 *	rsp		its xmm registers, 256 bytes, if the program reads any. Otherwise xmm is 0,
 *			and struct dt_regs begins below rsp
 */
#include "control/codegen/gather_code.h"

#include <string.h>

#include "shared/layout.h"
#include "shared/program.h"
#include "control/codegen/read_code.h"
#include "control/codegen/record_code.h"

#define XMM_SIZE ((int32_t)offsetof(struct dt_regs, general))
#define GENERAL_SIZE ((int32_t)sizeof(struct dt_regs) - XMM_SIZE)
#define REGS(field) ((int32_t)offsetof(struct dt_regs, field) - XMM_SIZE)
#define CALL_ROOM 512
#define BESIDE_SIZE 16 /* for the image's address, and rcx */
#define GATHER_PUSHES 80 /* by dt_gather, before it looks for a stack: its frame and flags */
#define TOUCH_ROOM 8
#define FLAG_OF_SHIFT 11

static const enum reg saved_regs[] = { RBX, RDX, RCX, RAX }; /* by record_emit_save */
static const enum reg other_regs[] = { RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

/* The ones that dt_gather doesn't preserve. */
static const enum reg lost_regs[] = { RSI, RDI, R8, R9, R10, R11 };

size_t gather_room(const struct tramp_event *event)
{
	/* two calls: with a late stub, too */
	return TOUCH_ROOM + (event->program ? (event->is_pair ? 2 : 1) * CALL_ROOM +
						      event->program_size + read_room(event) :
					      0);
}

/* ---- stack overflow -------------------------------------------------------------------------- */

int32_t gather_stack(const struct tramp_event *event)
{
	return BESIDE_SIZE + (event->xmms ? XMM_SIZE : 0) + GENERAL_SIZE + GATHER_PUSHES;
}

/* The bytes of the program's stack that are needed below rsp; 0: nothing is gathered. */
static int32_t stack_needed(const struct tramp_event *event, bool in_image, bool at_exit)
{
	int32_t by_call, by_reads;

	if (!event || !event->program)
		return 0;
	by_call = gather_stack(event) +
		  (in_image ? (int32_t)DT_ROUND_UP(event->program->size_max, 16) : 0);
	by_reads = read_far_stack(event, at_exit);
	return by_call > by_reads ? by_call : by_reads;
}

void gather_emit_touch(struct emitter *e, const struct tramp_event *event)
{
	bool in_image = !tramp_is_recorded(event);
	int32_t entry = stack_needed(event, in_image, false);
	int32_t exit = stack_needed(event->at_exit, in_image, true);
	int32_t needed = entry > exit ? entry : exit;

	if (!needed)
		return;
	emit_note(e, "a stack without room for the agent's call overflows here");
	emit_load(e, RAX, mem_at(RSP, -needed));
}

static struct mem general(int32_t xmm, enum reg reg)
{
	return mem_at(RSP, xmm + 8 * (int32_t)reg);
}

static void emit_registers(struct emitter *e, int32_t xmm, int32_t frame, int32_t saved)
{
	for (size_t i = 0; i < sizeof(other_regs) / sizeof(other_regs[0]); i++)
		emit_store(e, general(xmm, other_regs[i]), other_regs[i]);
	for (size_t i = 0; i < sizeof(saved_regs) / sizeof(saved_regs[0]); i++) {
		emit_load(e, RAX, mem_at(RSP, frame + record_saved_at(saved_regs[i])));
		emit_store(e, general(xmm, saved_regs[i]), RAX);
	}
	emit_lea(e, RAX, mem_at(RSP, frame + saved));
	emit_store(e, general(xmm, RSP), RAX);
	emit_load(e, RAX, mem_at(RSP, frame));		/* ah, and OF in al    */
	emit_mov(e, RCX, RAX);
	emit_shr_imm(e, RCX, 8);
	emit_and_imm32(e, RCX, 0xff);
	emit_and_imm32(e, RAX, 1);
	emit_shl_imm(e, RAX, FLAG_OF_SHIFT);
	emit_or(e, RAX, RCX);
	emit_store(e, mem_at(RSP, xmm + REGS(flags)), RAX);
	emit_store(e, mem_at(RSP, xmm + REGS(duration)), RDX);
}

/* Calls the agent. rax = where it writes the event; 0: in the pool. */
static void emit_call(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, size_t *ret_field)
{
	int32_t xmm = event->xmms ? XMM_SIZE : 0;

	emit_store(e, mem_at(RSP, xmm + REGS(image)), RAX);
	for (unsigned i = 0; i < 16; i++) {
		if (event->xmms >> i & 1)
			emit_store_xmm(e, mem_at(RSP, 16 * (int32_t)i), i, 16);
	}
	if (event->st0 || event->st1)
		emit_fstp80(e, mem_at(RSP, xmm + REGS(st0)));
	if (event->st1) {
		emit_fstp80(e, mem_at(RSP, xmm + REGS(st1)));
		emit_fld80(e, mem_at(RSP, xmm + REGS(st1)));
	}
	if (event->st0 || event->st1)
		emit_fld80(e, mem_at(RSP, xmm + REGS(st0)));
	emit_lea(e, RDI, mem_at(RSP, xmm - XMM_SIZE));	/* struct dt_regs      */
	emit_lea(e, RSI, mem_rip(taddr_add(emit_pc(e), 7)));
	*ret_field = e->size;
	emit_mov_imm(e, RBX, env->control.v);
	emit_call_mem(e, mem_at(RBX, (int32_t)offsetof(struct dt_control, gather)));
	for (size_t i = 0; i < sizeof(lost_regs) / sizeof(lost_regs[0]); i++)
		emit_load(e, lost_regs[i], general(xmm, lost_regs[i]));
	emit_lea(e, RSP, mem_at(RSP, xmm + GENERAL_SIZE));
}

void gather_emit_call(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, int32_t image, int32_t saved,
		      size_t *ret_field)
{
	int32_t xmm = event->xmms ? XMM_SIZE : 0;
	int32_t frame = xmm + GENERAL_SIZE;

	emit_lea(e, RSP, mem_at(RSP, -frame));
	emit_registers(e, xmm, frame + image, saved - image);
	if (image)
		emit_lea(e, RAX, mem_at(RSP, frame));
	else
		emit_mov_imm(e, RAX, 0);
	emit_call(e, env, event, ret_field);
}

void gather_emit_event(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event, int32_t saved, bool at_exit,
		       struct label *no, size_t *ret_field)
{
	struct read_ways ways = { .no = no };

	if (read_is_native(event, at_exit))
		read_emit(e, env, event, saved, at_exit, &ways);
	gather_emit_call(e, env, event, 0, saved, ret_field);
	emit_or(e, RAX, RAX);
	emit_jcc(e, CC_E, no);
	emit_bind(e, &ways.done);
}

void gather_emit_beside(struct emitter *e, const struct tramp_env *env,
			const struct tramp_event *event, int32_t saved, int32_t rsi_at,
			size_t *ret_field)
{
	int32_t xmm = event->xmms ? XMM_SIZE : 0;
	int32_t frame = xmm + GENERAL_SIZE;

	emit_lea(e, RSP, mem_at(RSP, -BESIDE_SIZE));
	emit_store(e, mem_at(RSP, 0), RBX);
	emit_store(e, mem_at(RSP, 8), RCX);
	emit_lea(e, RSP, mem_at(RSP, -frame));
	emit_registers(e, xmm, frame + BESIDE_SIZE, saved);
	emit_load(e, RAX, mem_at(RSP, frame + BESIDE_SIZE + rsi_at));
	emit_store(e, general(xmm, RSI), RAX);
	emit_load(e, RAX, mem_at(RSP, frame));
	emit_call(e, env, event, ret_field);
	emit_load(e, RCX, mem_at(RSP, 8));
	emit_lea(e, RSP, mem_at(RSP, BESIDE_SIZE));
}

void gather_emit_distance(struct emitter *e, size_t field)
{
	emit_align(e, sizeof(uint64_t));
	int32_t distance = (int32_t)(e->size - field);

	if (!emit_failed(e))
		memcpy(e->bytes + field - sizeof(distance), &distance, sizeof(distance));
}

void gather_emit_program(struct emitter *e, const struct tramp_event *event, size_t field)
{
	gather_emit_distance(e, field);
	emit_bytes(e, event->program, event->program_size);
}
