/*
 * exit_frame.c - the unwind table (.eh_frame) of return stubs: one FDE for all of them.
 *
 * To an unwinder a stub is a frame between the function and its caller, without variables:
 *
 *	return address	at &slot i .ra, with i computed from the pc:
 *			slots + ((pc - stubs) >> 5 << 6) + ra
 *	rsp		unchanged: the function's CFA, because its return popped only the landing;
 *			8 more if a signal interrupts the stub after its push
 *	CFA		rsp - 8; rsp - 24 if the stub returns to another stub (a tail call). libgcc
 *			identifies frames by their CFA: the CFA of the frame that handles an
 *			exception must differ from that of every frame on the way, the function's
 *			own and any stub's, or libgcc stops there and aborts
 *	others		unchanged
 *
 * Addresses are absolute: the table is generated for one target.
 */
#include "shared/layout.h"
#include "control/codegen/cfi_write.h"
#include "control/exits/code/exit_stub.h"

#define STUBS_SHIFT 22
#define TAIL_SHIFT 4 /* 1 << this lies between the two kinds of CFA */

_Static_assert((uint64_t)DT_STUBS_MAX * DT_STUB_SIZE == 1ULL << STUBS_SHIFT, "all stubs");

/* &slot i .ra */
static void put_slot(struct emitter *e, const struct tramp_env *env)
{
	cfi_ops(e, OP_BREG0 + CFI_RA, 0);
	cfi_const64(e, env->stubs.v);
	cfi_ops(e, OP_MINUS, OP_CONST1U, DT_STUB_SHIFT, OP_SHR, OP_CONST1U, DT_RETURN_SHIFT,
		OP_SHL);
	cfi_const64(e, env->returns.v + offsetof(struct dt_returns, slots) +
			       offsetof(struct dt_return_slot, ra));
	cfi_ops(e, OP_PLUS);
}

/* rsp - 8 - (is the return address a stub's? << TAIL_SHIFT) */
static void put_cfa(struct emitter *e, const struct tramp_env *env)
{
	size_t rule = cfi_begin_rule(e, CFI_DEF_CFA_EXPRESSION, 0);

	cfi_ops(e, OP_BREG0 + CFI_RSP, 0x78); /* -8 */
	put_slot(e, env);
	cfi_ops(e, OP_DEREF);
	cfi_const64(e, env->stubs.v);
	cfi_ops(e, OP_MINUS, OP_CONST1U, STUBS_SHIFT, OP_SHR, OP_LIT0, OP_EQ, OP_CONST1U,
		TAIL_SHIFT, OP_SHL, OP_MINUS);
	cfi_end_rule(e, rule);
}

/* rsp + ((pc % DT_STUB_SIZE > DT_STUB_LANDING) << 3): stubs are aligned. */
static void put_rsp(struct emitter *e)
{
	size_t rule = cfi_begin_rule(e, CFI_VAL_EXPRESSION, CFI_RSP);

	cfi_ops(e, OP_BREG0 + CFI_RSP, 0, OP_BREG0 + CFI_RA, 0, OP_CONST1U, DT_STUB_SIZE - 1,
		OP_AND, OP_LIT0 + DT_STUB_LANDING, OP_GT, OP_LIT0 + 3, OP_SHL, OP_PLUS);
	cfi_end_rule(e, rule);
}

bool exit_frame_table(const struct tramp_env *env, uint8_t *bytes, size_t room, size_t *ret_size,
		      size_t *ret_fde)
{
	struct emitter e;

	emit_init(&e, bytes, room, taddr_of(0));
	size_t cie = cfi_begin_cie(&e);
	put_cfa(&e, env);
	put_rsp(&e);
	size_t rule = cfi_begin_rule(&e, CFI_EXPRESSION, CFI_RA);
	put_slot(&e, env);
	cfi_end_rule(&e, rule);
	cfi_end_record(&e, cie);
	size_t fde = cfi_begin_fde(&e, cie, env->stubs, (uint64_t)DT_STUBS_MAX * DT_STUB_SIZE);
	cfi_end_record(&e, fde);
	cfi_put32(&e, 0);
	*ret_size = e.size;
	*ret_fde = fde;
	return !emit_failed(&e);
}
