/*
 * cfi.c - compiles the instructions of FDEs to rows.
 *
 * A CIE gives the rules that its FDEs begin with, an FDE the changes along its code. The compiler
 * follows only the CFA, rbp and the return address: no frame on x86-64 needs another register to
 * find its caller, except frames that keep the CFA in a register of their own for a few
 * instructions (DT_CFA_HARD). It recognises three expressions: of realigned frames, of PLT entries,
 * and of signal frames.
 */
#include "control/elf/cfi.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/elf/cursor.h"
#include "control/elf/eh_frame.h"
#include "control/elf/go_cfi.h"
#include "control/elf/symtab_state.h"

#define ROWS_MAX (64u << 20)
#define STATES_MAX 16
#define HW_RSP 7 /* DWARF numbers */
#define HW_RBP 6
#define HW_RA 16

enum rule { RULE_SAME, RULE_UNDEFINED, RULE_OFFSET, RULE_AT_RBP, RULE_HARD };

struct state {
	enum dt_cfa_rule cfa;
	int64_t cfa_offset;
	enum rule rbp, ra;
	int64_t rbp_offset, ra_offset;
};

/* The rules after the instructions of the CIE used last. */
struct start {
	uint64_t offset; /* which CIE; UINT64_MAX: none yet */
	bool is_valid;
	struct state state;
};

struct compiler {
	struct start start;
	struct cfi_rows rows;
};

/* ---- rules ----------------------------------------------------------------------------------- */

static void set_rule(struct state *state, uint64_t reg, enum rule rule, int64_t offset)
{
	if (reg == HW_RBP) {
		state->rbp = rule;
		state->rbp_offset = offset;
	} else if (reg == HW_RA) {
		state->ra = rule;
		state->ra_offset = offset;
	}
}

static void restore_rule(struct state *state, const struct state *start, uint64_t reg)
{
	if (reg == HW_RBP)
		set_rule(state, reg, start->rbp, start->rbp_offset);
	else
		set_rule(state, reg, start->ra, start->ra_offset);
}

static void set_cfa(struct state *state, uint64_t reg, int64_t offset)
{
	state->cfa = reg == HW_RSP ? DT_CFA_RSP : reg == HW_RBP ? DT_CFA_RBP : DT_CFA_HARD;
	state->cfa_offset = offset;
}

/* "rsp + 8 + ((rip & 15) >= 11) * 8" */
static bool is_plt(struct cursor c)
{
	static const uint8_t expected[] = { DW_OP_breg7, 8,	    DW_OP_breg16, 0,
					    DW_OP_lit15, DW_OP_and, DW_OP_lit11,  DW_OP_ge,
					    DW_OP_lit3,	 DW_OP_shl, DW_OP_plus };

	return (size_t)(c.end - c.at) == sizeof(expected) &&
	       memcmp(c.at, expected, sizeof(expected)) == 0;
}

static void set_cfa_expression(struct state *state, struct cursor c)
{
	state->cfa = DT_CFA_HARD;
	if (is_plt(c)) {
		state->cfa = DT_CFA_PLT;
		return;
	}
	if (take(&c, 1) != DW_OP_breg6)
		return;
	state->cfa_offset = take_sleb(&c);
	if (take(&c, 1) == DW_OP_deref && c.at == c.end && !c.failed)
		state->cfa = DT_CFA_AT_RBP;
}

static void set_expression(struct state *state, uint64_t reg, struct cursor c)
{
	int64_t offset;
	bool simple = take(&c, 1) == DW_OP_breg6;

	offset = take_sleb(&c);
	set_rule(state, reg, simple && c.at == c.end && !c.failed ? RULE_AT_RBP : RULE_HARD,
		 offset);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool fits(int64_t offset, int64_t low, int64_t high)
{
	return offset % 8 == 0 && offset / 8 >= low && offset / 8 <= high;
}

static struct dt_unwind_row row_of(const struct state *state, bool is_signal, uint64_t pc)
{
	struct dt_unwind_row row = { .pc = (uint32_t)pc, .cfa_rule = (uint8_t)state->cfa };

	if (is_signal && state->ra != RULE_OFFSET) {
		row.cfa_rule = DT_CFA_SIGNAL;
		return row;
	}
	if (state->ra == RULE_UNDEFINED) {
		row.cfa_rule = DT_CFA_END;
		return row;
	}
	if (state->ra != RULE_OFFSET || state->ra_offset != -8 ||
	    !fits(state->cfa_offset, INT16_MIN, INT16_MAX)) {
		row.cfa_rule = DT_CFA_HARD;
		return row;
	}
	row.cfa = (int16_t)(state->cfa_offset / 8);
	if (state->rbp == RULE_OFFSET || state->rbp == RULE_AT_RBP) {
		row.rbp_rule = state->rbp == RULE_OFFSET ? DT_RBP_SAVED : DT_RBP_AT_RBP;
		if (!fits(state->rbp_offset, INT8_MIN, INT8_MAX))
			row.cfa_rule = DT_CFA_HARD;
		else
			row.rbp = (int8_t)(state->rbp_offset / 8);
	} else if (state->rbp == RULE_HARD) {
		row.cfa_rule = DT_CFA_HARD;
	}
	return row;
}

static bool same_rules(const struct dt_unwind_row *a, const struct dt_unwind_row *b)
{
	return a->cfa == b->cfa && a->rbp == b->rbp && a->cfa_rule == b->cfa_rule &&
	       a->rbp_rule == b->rbp_rule;
}

/* False: too many, or out of memory. */
static bool add_row(struct cfi_rows *rows, struct dt_unwind_row row)
{
	if (rows->count && vec_last(rows)->pc == row.pc)
		*vec_last(rows) = row;
	else if (!rows->count || vec_last(rows)->pc >= row.pc || !same_rules(vec_last(rows), &row))
		return rows->count < ROWS_MAX && vec_push(rows, row);
	return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

struct run {
	struct cfi_rows *rows; /* NULL: the CIE's instructions, which make no rows */
	const struct eh_frame_cie *cie;
	struct state start; /* after the CIE's instructions */
	struct state state;
	struct state saved[STATES_MAX];
	size_t saved_count;
	uint64_t pc, end;
	bool failed; /* damaged */
	bool is_full; /* a row couldn't be added */
};

/* The rules as they are now, from the pc on. */
static void put_row(struct run *run)
{
	if (run->pc < run->end &&
	    !add_row(run->rows, row_of(&run->state, run->cie->is_signal, run->pc)))
		run->is_full = true;
}

static void advance(struct run *run, uint64_t by)
{
	uint64_t to = run->pc + by * run->cie->code_align;

	if (!run->rows || to <= run->pc)
		return;
	put_row(run);
	run->pc = to;
}

static void run_stack(struct run *run, uint8_t op)
{
	if (op == DW_CFA_remember_state && run->saved_count < STATES_MAX)
		run->saved[run->saved_count++] = run->state;
	else if (op == DW_CFA_restore_state && run->saved_count)
		run->state = run->saved[--run->saved_count];
	else
		run->failed = true;
}

static void run_cfa(struct run *run, uint8_t op, struct cursor *c)
{
	struct state *state = &run->state;
	int64_t scale = op >= DW_CFA_offset_extended_sf ? run->cie->data_align : 1;
	bool is_signed = op >= DW_CFA_offset_extended_sf;
	uint64_t reg;

	switch (op) {
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_sf:
		reg = take_uleb(c);
		set_cfa(state, reg, (int64_t)take_leb(c, is_signed) * scale);
		break;
	case DW_CFA_def_cfa_register:
		set_cfa(state, take_uleb(c), state->cfa_offset);
		break;
	case DW_CFA_def_cfa_expression:
		set_cfa_expression(state, take_block(c));
		break;
	default:
		state->cfa_offset = (int64_t)take_leb(c, is_signed) * scale;
	}
}

static void run_register(struct run *run, uint8_t op, struct cursor *c)
{
	struct state *state = &run->state;
	uint64_t reg = take_uleb(c);

	switch (op) {
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
		set_rule(state, reg, RULE_OFFSET,
			 (int64_t)take_leb(c, op == DW_CFA_offset_extended_sf) *
				 run->cie->data_align);
		break;
	case DW_CFA_restore_extended:
		restore_rule(state, &run->start, reg);
		break;
	case DW_CFA_undefined:
		set_rule(state, reg, RULE_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		set_rule(state, reg, RULE_SAME, 0);
		break;
	case DW_CFA_expression:
		set_expression(state, reg, take_block(c));
		break;
	case DW_CFA_val_expression:
		take_block(c);
		set_rule(state, reg, RULE_HARD, 0);
		break;
	default: /* register, val_offset, val_offset_sf */
		take_uleb(c);
		set_rule(state, reg, RULE_HARD, 0);
	}
}

static void run_op(struct run *run, uint8_t op, struct cursor *c)
{
	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_advance_loc1:
	case DW_CFA_advance_loc2:
	case DW_CFA_advance_loc4:
		advance(run, take(c, 1u << (op - DW_CFA_advance_loc1)));
		break;
	case DW_CFA_GNU_args_size:
		take_uleb(c);
		break;
	case DW_CFA_remember_state:
	case DW_CFA_restore_state:
		run_stack(run, op);
		break;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_expression:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_offset_sf:
		run_cfa(run, op, c);
		break;
	case DW_CFA_offset_extended:
	case DW_CFA_restore_extended:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
	case DW_CFA_register:
	case DW_CFA_expression:
	case DW_CFA_offset_extended_sf:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf:
	case DW_CFA_val_expression:
		run_register(run, op, c);
		break;
	default:
		run->failed = true;
	}
}

static bool run_all(struct run *run, struct cursor c)
{
	while (c.at < c.end && !c.failed && !run->failed) {
		uint8_t op = (uint8_t)take(&c, 1);

		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			advance(run, op & 0x3f);
			break;
		case DW_CFA_offset:
			set_rule(&run->state, op & 0x3f, RULE_OFFSET,
				 (int64_t)take_uleb(&c) * run->cie->data_align);
			break;
		case DW_CFA_restore:
			restore_rule(&run->state, &run->start, op & 0x3f);
			break;
		default:
			run_op(run, op, &c);
		}
	}
	return !c.failed && !run->failed;
}

/* ---- FDEs ------------------------------------------------------------------------------------ */

static struct cursor cursor_of(struct bytes bytes)
{
	return (struct cursor){ bytes.at, bytes.at + bytes.size, false };
}

static const struct start *start_of(struct compiler *compiler, const struct eh_frame_cie *cie)
{
	struct run run = { .cie = cie, .state = { .cfa = DT_CFA_HARD } };

	if (compiler->start.offset != cie->offset) {
		compiler->start.offset = cie->offset;
		compiler->start.is_valid = cie->return_register == HW_RA &&
					   run_all(&run, cursor_of(cie->start));
		compiler->start.state = run.state;
	}
	return &compiler->start;
}

static bool add_fde(void *context, const struct eh_frame_fde *fde)
{
	struct compiler *compiler = context;
	const struct start *start = start_of(compiler, fde->cie);
	struct run run = { .rows = &compiler->rows,
			   .cie = fde->cie,
			   .start = start->state,
			   .state = start->state,
			   .pc = fde->start,
			   .end = fde->end };
	struct dt_unwind_row end = { .pc = (uint32_t)fde->end, .cfa_rule = DT_CFA_NONE };

	if (!start->is_valid || fde->is_damaged || fde->end >= UINT32_MAX)
		return true;
	if (!run_all(&run, cursor_of(fde->code)))
		run.state.cfa = DT_CFA_HARD, run.state.ra = RULE_HARD;
	put_row(&run);
	return !run.is_full && add_row(run.rows, end);
}

static int compare_rows(const void *a, const void *b)
{
	const struct dt_unwind_row *x = a, *y = b;

	if (x->pc != y->pc)
		return x->pc < y->pc ? -1 : 1;
	/* Where one function ends and another begins, the beginning wins. */
	return (x->cfa_rule != DT_CFA_NONE) - (y->cfa_rule != DT_CFA_NONE);
}

/* Sorts the rows, keeps one per pc, and drops rows equal to the row before. */
static void tidy(struct cfi_rows *rows)
{
	size_t kept = 0;

	if (rows->count == 0)
		return;
	qsort(rows->items, rows->count, sizeof(*rows->items), compare_rows);
	for (size_t i = 1; i < rows->count; i++) {
		if (rows->items[i].pc == rows->items[kept].pc)
			rows->items[kept] = rows->items[i];
		else if (!same_rules(&rows->items[i], &rows->items[kept]))
			rows->items[++kept] = rows->items[i];
	}
	rows->count = kept + 1;
}

struct error *cfi_compile(const struct symtab *symtab, struct cfi_rows *ret_rows)
{
	struct compiler compiler = { .start.offset = UINT64_MAX };

	if (!eh_frame_each(&symtab->image, add_fde, &compiler)) {
		vec_free(&compiler.rows);
		return error_new(ERROR_FAILED, "%s: unwind table too large", symtab->image.path);
	}
	if (!go_cfi_add(symtab, &compiler.rows)) {
		vec_free(&compiler.rows);
		return error_new(ERROR_FAILED, "%s: Go's table of functions is too large",
				 symtab->image.path);
	}
	tidy(&compiler.rows);
	*ret_rows = compiler.rows;
	return NULL;
}

const struct dt_unwind_row *cfi_find(const struct cfi_rows *rows, uint64_t address)
{
	size_t n = sorted_count(rows->count, i, rows->items[i].pc <= address);

	return n && rows->items[n - 1].cfa_rule != DT_CFA_NONE ? &rows->items[n - 1] : NULL;
}
