/*
 * exit_frame.c - what tells an unwinder about return stubs, as .eh_frame has it: one FDE for all
 * of them.
 *
 * To an unwinder a stub is a frame between the function and its caller, with no variables of its
 * own:
 *
 *	return address	at &slot i .ra, with i out of the pc:
 *			slots + ((pc - stubs) >> 5 << 6) + ra
 *	rsp		as it is: the function's CFA, for its return took nothing but the landing
 *			off the stack
 *	CFA		rsp - 8; rsp - 24 where it returns to another stub (a tail call). libgcc tells
 *			frames apart by it: the value that the frame which handles an exception gets by
 *			it must be no other frame's on the way, neither the function's own nor a
 *			stub's, or it stops there and aborts
 *	the others	as they are
 *
 * Addresses are absolute: the table is generated for one target.
 */
#include <string.h>

#include "../../shared/layout.h"
#include "exit.h"

#define REG_RSP 7
#define REG_RA 16

enum {
	CFA_NOP = 0x00,
	CFA_EXPRESSION = 0x10,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_VAL_EXPRESSION = 0x16,
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST8U = 0x0e,
	OP_MINUS = 0x1c,
	OP_PLUS = 0x22,
	OP_SHL = 0x24,
	OP_SHR = 0x25,
	OP_EQ = 0x29,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
};

#define STUBS_SHIFT 22
#define TAIL_SHIFT 4 /* 1 << this lies between the two kinds of CFA */

_Static_assert((uint64_t)DT_STUBS_MAX * DT_STUB_SIZE == 1ULL << STUBS_SHIFT, "all stubs");

static void put8(struct emitter *e, unsigned value)
{
	emit_bytes(e, &(uint8_t){ (uint8_t)value }, 1);
}

static void put32(struct emitter *e, uint32_t value)
{
	emit_bytes(e, &value, sizeof(value));
}

/* A record's length, once it is complete: padded to 8 bytes, its own four not counted. */
static void end_record(struct emitter *e, size_t start)
{
	while (!emit_failed(e) && (e->size - start) % 8 != 0)
		put8(e, CFA_NOP);
	uint32_t length = (uint32_t)(e->size - start - sizeof(length));
	if (!emit_failed(e))
		memcpy(e->bytes + start, &length, sizeof(length));
}

/* An expression's length comes before it. */
static size_t begin_expression(struct emitter *e)
{
	put8(e, 0);
	return e->size;
}

static void end_expression(struct emitter *e, size_t start)
{
	if (!emit_failed(e))
		e->bytes[start - 1] = (uint8_t)(e->size - start);
}

/* &slot i .ra */
static void put_slot(struct emitter *e, const struct tramp_env *env)
{
	put8(e, OP_BREG0 + REG_RA);
	put8(e, 0);
	put8(e, OP_CONST8U);
	emit_u64(e, env->stubs.v);
	put8(e, OP_MINUS);
	put8(e, OP_CONST1U);
	put8(e, DT_STUB_SHIFT);
	put8(e, OP_SHR);
	put8(e, OP_CONST1U);
	put8(e, DT_RETURN_SHIFT);
	put8(e, OP_SHL);
	put8(e, OP_CONST8U);
	emit_u64(e, env->returns.v + offsetof(struct dt_returns, slots) +
			    offsetof(struct dt_return_slot, ra));
	put8(e, OP_PLUS);
}

static void put_return_address(struct emitter *e, const struct tramp_env *env)
{
	put8(e, CFA_EXPRESSION);
	put8(e, REG_RA);
	size_t start = begin_expression(e);
	put_slot(e, env);
	end_expression(e, start);
}

/* rsp - 8 - (is the return address a stub's? << TAIL_SHIFT) */
static void put_cfa(struct emitter *e, const struct tramp_env *env)
{
	put8(e, CFA_DEF_CFA_EXPRESSION);
	size_t start = begin_expression(e);
	put8(e, OP_BREG0 + REG_RSP);
	put8(e, 0x78); /* -8 */
	put_slot(e, env);
	put8(e, OP_DEREF);
	put8(e, OP_CONST8U);
	emit_u64(e, env->stubs.v);
	put8(e, OP_MINUS);
	put8(e, OP_CONST1U);
	put8(e, STUBS_SHIFT);
	put8(e, OP_SHR);
	put8(e, OP_LIT0);
	put8(e, OP_EQ);
	put8(e, OP_CONST1U);
	put8(e, TAIL_SHIFT);
	put8(e, OP_SHL);
	put8(e, OP_MINUS);
	end_expression(e, start);
}

static void put_cie(struct emitter *e, const struct tramp_env *env)
{
	size_t start = e->size;

	put32(e, 0);
	put32(e, 0); /* it is a CIE */
	put8(e, 1); /* version */
	emit_bytes(e, "zR", 3);
	put8(e, 1); /* code alignment */
	put8(e, 0x78); /* data alignment: -8 */
	put8(e, REG_RA);
	put8(e, 1); /* bytes of augmentation */
	put8(e, 0); /* addresses are absolute, 8 bytes */
	put_cfa(e, env);
	put8(e, CFA_VAL_EXPRESSION);
	put8(e, REG_RSP);
	put8(e, 2);
	put8(e, OP_BREG0 + REG_RSP);
	put8(e, 0);
	put_return_address(e, env);
	end_record(e, start);
}

bool exit_frame_table(const struct tramp_env *env, uint8_t *bytes, size_t room, size_t *ret_size,
		      size_t *ret_fde)
{
	struct emitter e;

	emit_init(&e, bytes, room, taddr_of(0));
	put_cie(&e, env);
	size_t start = e.size;
	put32(&e, 0);
	put32(&e,
	      (uint32_t)(start + sizeof(uint32_t))); /* how far back its CIE is, which is at 0 */
	emit_u64(&e, env->stubs.v);
	emit_u64(&e, (uint64_t)DT_STUBS_MAX * DT_STUB_SIZE);
	put8(&e, 0); /* bytes of augmentation */
	end_record(&e, start);
	put32(&e, 0);
	*ret_size = e.size;
	*ret_fde = start;
	return !emit_failed(&e);
}
