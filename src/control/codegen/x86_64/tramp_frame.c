/*
 * The table's rules are expressions that walk the rows of the trampoline that the pc is in, so that
 * one CIE serves all trampolines, now and later. To the unwinder a trampoline is a frame that the
 * program's instruction has called:
 *
 *	rsp		plus the bytes that the trampoline has on the stack
 *	rbx		from the stack, where it is saved
 *	return address	the instruction that the code stands for, plus 1, because unwinders look one
 *			byte before return addresses. Where the function has returned already: the
 *			function's return address, or the one of its stub
 *	CFA		8 below that rsp, which is no other frame's (exit_frame.c explains why)
 *	others		unchanged; callers rely on no other register that is saved
 */
#include "control/codegen/tramp_frame.h"

#include <stdlib.h>
#include <string.h>

#include "shared/frame.h"
#include "shared/returns.h"
#include "control/base/vec.h"
#include "control/codegen/cfi_write.h"

uint8_t tramp_frame_kept(int32_t depth)
{
	for (uint8_t kept = 1; kept <= DT_FRAME_KEPT_MASK; kept++) {
		/* one more word is below it */
		if ((int32_t)(DT_FRAME_KEPT >> 8 * kept & 0xff) == depth - 8)
			return kept;
	}
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint32_t make_row(const struct emit_row *row, size_t end)
{
	int32_t words = row->depth / 8 + 1;

	if (words < 0 || words > DT_FRAME_WORDS_MAX)
		words = 0;
	return dt_frame_row((uint32_t)end, row->origin, row->kept, (uint32_t)words);
}

/* Joins neighbours that are equal. */
static void join_rows(struct emit_rows *rows)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct emit_row *row = &rows->items[i];
		const struct emit_row *last = kept ? &rows->items[kept - 1] : NULL;

		if (!last || last->depth != row->depth || last->origin != row->origin ||
		    last->kept != row->kept)
			rows->items[kept++] = *row;
	}
	rows->count = kept;
}

void tramp_frame_end(struct emitter *e, taddr site)
{
	struct emit_rows *rows = e->rows;
	size_t code = e->size;

	e->rows = NULL;
	join_rows(rows);
	emit_align(e, 4);
	/* the end is aligned, and the rows lie directly below it */
	while (!emit_failed(e) && (emit_pc(e).v + rows->count * sizeof(uint32_t)) % DT_FRAME_ALIGN)
		cfi_put32(e, 0);
	for (size_t i = rows->count; i > 0; i--)
		cfi_put32(e, make_row(&rows->items[i - 1],
				      i < rows->count ? rows->items[i].at : code));
	struct dt_frame_end end = { .check = DT_FRAME_CHECK ^ (uint32_t)emit_pc(e).v,
				    .site = (int32_t)taddr_diff(site, emit_pc(e)),
				    .start = (uint32_t)e->size,
				    .row_count = (uint32_t)rows->count };
	emit_bytes(e, &end, sizeof(end));
	if (code > DT_FRAME_END_MAX || e->size > DT_FRAME_SCAN)
		e->failed = true;
}

void tramp_frame_free(struct emit_rows *rows)
{
	vec_free(rows);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Stack: p. Replaces p with the next struct dt_frame_end from there on. */
static void put_find_end(struct emitter *e)
{
	size_t again = e->size;

	cfi_ops(e, OP_DUP, OP_DEREF_SIZE, 4, OP_OVER);
	cfi_const32(e, UINT32_MAX);
	cfi_ops(e, OP_AND, OP_XOR);
	cfi_const32(e, DT_FRAME_CHECK);
	cfi_ops(e, OP_EQ);
	size_t found = cfi_jump(e, OP_BRA);
	cfi_ops(e, OP_PLUS_UCONST, DT_FRAME_ALIGN);
	cfi_jump_back(e, OP_SKIP, again);
	cfi_land(e, found);
}

/* Pushes the end of the pc's trampoline, and the pc's row. */
static void put_find_row(struct emitter *e)
{
	cfi_ops(e, OP_BREG0 + CFI_RA, 0, OP_DUP, OP_PLUS_UCONST, DT_FRAME_ALIGN - 1);
	cfi_const64(e, ~(uint64_t)(DT_FRAME_ALIGN - 1));
	cfi_ops(e, OP_AND);
	put_find_end(e); /* pc end */
	cfi_ops(e, OP_DUP, OP_PLUS_UCONST, offsetof(struct dt_frame_end, start), OP_DEREF_SIZE, 4,
		OP_OVER, OP_SWAP, OP_MINUS); /* pc end start */
	cfi_ops(e, OP_ROT, OP_ROT, OP_SWAP, OP_MINUS); /* end offset */
	cfi_ops(e, OP_OVER);
	size_t again = e->size;
	cfi_ops(e, OP_LIT0 + 4, OP_MINUS, OP_DUP, OP_DEREF_SIZE, 2, OP_PICK, 2, OP_GT);
	size_t found = cfi_jump(e, OP_BRA);
	cfi_jump_back(e, OP_SKIP, again);
	cfi_land(e, found); /* end offset &row */
	cfi_ops(e, OP_DEREF_SIZE, 4, OP_SWAP, OP_DROP);
}

/* rsp + bytes on the stack - 8. A row counts words, and one too many. */
static void put_cfa(struct emitter *e)
{
	size_t rule = cfi_begin_rule(e, CFI_DEF_CFA_EXPRESSION, 0);

	put_find_row(e);
	cfi_ops(e, OP_CONST1U, DT_FRAME_WORDS_SHIFT, OP_SHR, OP_LIT0 + 3, OP_SHL);
	cfi_ops(e, OP_BREG0 + CFI_RSP, 0x70, OP_PLUS); /* -16 */
	cfi_end_rule(e, rule);
}

/* An expression for a register's value begins with the CFA on its stack. */
static void put_rsp(struct emitter *e)
{
	size_t rule = cfi_begin_rule(e, CFI_VAL_EXPRESSION, CFI_RSP);

	cfi_ops(e, OP_PLUS_UCONST, 8);
	cfi_end_rule(e, rule);
}

static void put_rbx(struct emitter *e)
{
	size_t rule = cfi_begin_rule(e, CFI_VAL_EXPRESSION, CFI_RBX);

	put_find_row(e);
	cfi_ops(e, OP_SWAP, OP_DROP, OP_CONST1U, DT_FRAME_KEPT_SHIFT, OP_SHR,
		OP_LIT0 + DT_FRAME_KEPT_MASK, OP_AND, OP_DUP);
	size_t saved = cfi_jump(e, OP_BRA); /* cfa kept */
	cfi_ops(e, OP_BREG0 + CFI_RBX, 0);
	size_t done = cfi_jump(e, OP_SKIP);
	cfi_land(e, saved);
	cfi_ops(e, OP_LIT0 + 3, OP_SHL);
	cfi_const32(e, DT_FRAME_KEPT);
	cfi_ops(e, OP_SWAP, OP_SHR, OP_CONST1U, 0xff, OP_AND, OP_MINUS, OP_PLUS_UCONST, 8,
		OP_DEREF);
	cfi_land(e, done);
	cfi_end_rule(e, rule);
}

/* Stack: end. Replaces it with the address of its site, by the signed distance. */
static void put_site(struct emitter *e)
{
	cfi_ops(e, OP_DUP, OP_PLUS_UCONST, offsetof(struct dt_frame_end, site), OP_DEREF_SIZE, 4);
	cfi_const32(e, 1u << 31);
	cfi_ops(e, OP_XOR);
	cfi_const32(e, 1u << 31);
	cfi_ops(e, OP_MINUS, OP_PLUS);
}

/* The word at the CFA is a stub's index, or the stub's return address. */
static void put_returned(struct emitter *e, taddr control)
{
	cfi_ops(e, OP_DROP, OP_DROP, OP_DEREF, OP_DUP);
	cfi_const32(e, DT_STUBS_MAX);
	cfi_ops(e, OP_LT);
	size_t stub = cfi_jump(e, OP_BRA);
	size_t done = cfi_jump(e, OP_SKIP);
	cfi_land(e, stub);
	cfi_ops(e, OP_CONST1U, DT_RETURN_SHIFT, OP_SHL);
	cfi_const64(e, control.v + offsetof(struct dt_control, returns));
	cfi_ops(e, OP_DEREF, OP_PLUS);
	cfi_const64(e, offsetof(struct dt_returns, slots) + offsetof(struct dt_return_slot, ra));
	cfi_ops(e, OP_PLUS, OP_DEREF);
	cfi_land(e, done);
}

static void put_return_address(struct emitter *e, taddr control)
{
	size_t rule = cfi_begin_rule(e, CFI_VAL_EXPRESSION, CFI_RA);

	put_find_row(e);
	cfi_ops(e, OP_CONST1U, DT_FRAME_ORIGIN_SHIFT, OP_SHR, OP_CONST1U, DT_FRAME_ORIGIN_MASK,
		OP_AND, OP_DUP, OP_CONST1U, DT_FRAME_RETURNS, OP_EQ);
	size_t returned = cfi_jump(e, OP_BRA); /* cfa end origin */
	cfi_ops(e, OP_SWAP);
	put_site(e);
	cfi_ops(e, OP_PLUS, OP_PLUS_UCONST, 1);
	size_t done = cfi_jump(e, OP_SKIP);
	cfi_land(e, returned);
	put_returned(e, control);
	cfi_land(e, done);
	cfi_end_rule(e, rule);
}

/* Rules for a pc at a jump to a trampoline: it stands for the site's first instruction. */
static void put_hop_rules(struct emitter *e)
{
	size_t rule = cfi_begin_rule(e, CFI_DEF_CFA_EXPRESSION, 0);

	cfi_ops(e, OP_BREG0 + CFI_RSP, 0x78); /* -8 */
	cfi_end_rule(e, rule);
	cfi_ops(e, CFI_SAME_VALUE, CFI_RBX);
	rule = cfi_begin_rule(e, CFI_VAL_EXPRESSION, CFI_RA);
	cfi_ops(e, OP_BREG0 + CFI_RA, 0, OP_DUP, OP_PLUS_UCONST, 1, OP_DEREF_SIZE, 4);
	cfi_const32(e, 1u << 31);
	cfi_ops(e, OP_XOR);
	cfi_const32(e, 1u << 31);
	cfi_ops(e, OP_MINUS, OP_PLUS, OP_PLUS_UCONST, 5);
	put_find_end(e);
	put_site(e);
	cfi_ops(e, OP_PLUS_UCONST, 1);
	cfi_end_rule(e, rule);
}

bool tramp_frame_table(struct dt_control *control, taddr at)
{
	uint64_t frames = at.v + offsetof(struct dt_control, frames);
	struct emitter e;

	emit_init(&e, control->frames, sizeof(control->frames), taddr_of(frames));
	size_t cie = cfi_begin_cie(&e);
	put_cfa(&e);
	put_rsp(&e);
	put_rbx(&e);
	put_return_address(&e, at);
	cfi_end_record(&e, cie);
	size_t fde = cfi_begin_fde(&e, cie, taddr_of(0), 0);
	cfi_end_record(&e, fde);
	control->frame_fde = frames + fde;
	fde = cfi_begin_fde(&e, cie, taddr_of(0), 0);
	put_hop_rules(&e);
	cfi_end_record(&e, fde);
	control->hop_fde = frames + fde;
	control->frames_used = (uint32_t)e.size;
	return !emit_failed(&e);
}
