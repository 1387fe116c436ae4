/*
 * cfi.c
 *
 * A CIE gives the rules that its FDEs begin with, an FDE the changes along its code. Of all
 * registers only the CFA, rbp and the return address are followed: no frame on x86-64 needs another
 * to find its caller, but for those that keep the CFA in a register of their own for a few
 * instructions (DT_CFA_HARD). Expressions are known by sight: the one for frames that are aligned
 * anew, that of PLT entries, that of signal frames.
 */
#include "control/elf/cfi.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/elf/symtab_state.h"

#define ROWS_MAX (64u << 20)
#define STATES_MAX 16
#define HW_RSP 7 /* DWARF's numbers */
#define HW_RBP 6
#define HW_RA 16

/* Reads on, never past the end; failure is sticky and gives zeroes. */
struct cursor {
	const uint8_t *at, *end;
	bool failed;
};

enum rule { RULE_SAME, RULE_UNDEFINED, RULE_OFFSET, RULE_AT_RBP, RULE_HARD };

struct state {
	enum dt_cfa_rule cfa;
	int64_t cfa_offset;
	enum rule rbp, ra;
	int64_t rbp_offset, ra_offset;
};

struct cie {
	size_t offset; /* in the section */
	bool is_valid, is_signal;
	uint8_t encoding;
	bool has_data; /* letter z: FDEs have a length of augmentation data */
	uint64_t code_align;
	int64_t data_align;
	struct state start;
};

struct compiler {
	const uint8_t *bytes;
	uint64_t address; /* of bytes */
	VEC(struct cie) cies;
	struct cfi_rows rows;
	bool failed; /* out of memory */
};

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t take(struct cursor *c, size_t n)
{
	uint64_t value = 0;

	if ((size_t)(c->end - c->at) < n) {
		c->failed = true;
		c->at = c->end;
		return 0;
	}
	memcpy(&value, c->at, n);
	c->at += n;
	return value;
}

static uint64_t take_leb(struct cursor *c, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)take(c, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !c->failed);
	if (is_signed && shift < 64 && (byte & 0x40))
		value |= ~0ULL << shift;
	return value;
}

static struct cursor take_block(struct cursor *c)
{
	uint64_t length = take_leb(c, false);
	struct cursor block = { c->at, c->at, false };

	if (length > (uint64_t)(c->end - c->at)) {
		c->failed = true;
		length = 0;
	}
	c->at += length;
	block.end = c->at;
	return block;
}

static uint64_t take_encoded(struct cursor *c, uint8_t encoding, uint64_t here)
{
	static const int8_t sizes[16] = {
		[0] = 8, [2] = 2, [3] = 4, [4] = 8, [0xa] = -2, [0xb] = -4, [0xc] = 8
	};
	int8_t size = sizes[encoding & 15];
	unsigned bits = 8 * (unsigned)(size < 0 ? -size : size);
	uint64_t value = take(c, bits / 8);

	if (size == 0)
		c->failed = true;
	if (size < 0)
		value = (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits));
	return (encoding & 0x70) == 0x10 ? value + here : value;
}

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
	state->cfa_offset = (int64_t)take_leb(&c, true);
	if (take(&c, 1) == DW_OP_deref && c.at == c.end && !c.failed)
		state->cfa = DT_CFA_AT_RBP;
}

static void set_expression(struct state *state, uint64_t reg, struct cursor c)
{
	int64_t offset;
	bool simple = take(&c, 1) == DW_OP_breg6;

	offset = (int64_t)take_leb(&c, true);
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

static void add_row(struct compiler *compiler, struct dt_unwind_row row)
{
	struct cfi_rows *rows = &compiler->rows;

	if (rows->count && vec_last(rows)->pc == row.pc)
		*vec_last(rows) = row;
	else if (rows->count && vec_last(rows)->pc < row.pc && same_rules(vec_last(rows), &row))
		return;
	else if (rows->count >= ROWS_MAX || !vec_push(rows, row))
		compiler->failed = true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

struct run {
	struct compiler *compiler; /* NULL: the CIE's, which makes no rows */
	const struct cie *cie;
	struct state state;
	struct state saved[STATES_MAX];
	size_t saved_count;
	uint64_t pc, end;
	bool failed;
};

static void advance(struct run *run, uint64_t by)
{
	uint64_t to = run->pc + by * run->cie->code_align;

	if (!run->compiler || to <= run->pc)
		return;
	if (run->pc < run->end)
		add_row(run->compiler, row_of(&run->state, run->cie->is_signal, run->pc));
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
		reg = take_leb(c, false);
		set_cfa(state, reg, (int64_t)take_leb(c, is_signed) * scale);
		break;
	case DW_CFA_def_cfa_register:
		set_cfa(state, take_leb(c, false), state->cfa_offset);
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
	uint64_t reg = take_leb(c, false);

	switch (op) {
	case DW_CFA_offset_extended:
	case DW_CFA_offset_extended_sf:
		set_rule(state, reg, RULE_OFFSET,
			 (int64_t)take_leb(c, op == DW_CFA_offset_extended_sf) *
				 run->cie->data_align);
		break;
	case DW_CFA_restore_extended:
		restore_rule(state, &run->cie->start, reg);
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
		take_leb(c, false);
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
		take_leb(c, false);
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
				 (int64_t)take_leb(&c, false) * run->cie->data_align);
			break;
		case DW_CFA_restore:
			restore_rule(&run->state, &run->cie->start, op & 0x3f);
			break;
		default:
			run_op(run, op, &c);
		}
	}
	return !c.failed && !run->failed;
}

/* ---- CIEs and FDEs --------------------------------------------------------------------------- */

/* Letters behind z, each with its data; false: one that isn't known. */
static bool read_augmentation(struct cie *cie, const char *letters, struct cursor data)
{
	for (; *letters && !data.failed; letters++) {
		uint8_t encoding;

		switch (*letters) {
		case 'R':
			cie->encoding = (uint8_t)take(&data, 1);
			break;
		case 'P':
			encoding = (uint8_t)take(&data, 1);
			take_encoded(&data, encoding & 0x0f, 0);
			break;
		case 'L':
			take(&data, 1);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		case 'B':
			break;
		default:
			return false;
		}
	}
	return !data.failed;
}

static void read_cie(struct cie *cie, struct cursor c)
{
	uint8_t version = (uint8_t)take(&c, 1);
	const char *letters = (const char *)c.at;
	size_t length = strnlen(letters, (size_t)(c.end - c.at));
	uint64_t ra;

	if (length == (size_t)(c.end - c.at) || (version != 1 && version != 3))
		return;
	c.at += length + 1;
	cie->code_align = take_leb(&c, false);
	cie->data_align = (int64_t)take_leb(&c, true);
	ra = version == 1 ? take(&c, 1) : take_leb(&c, false);
	cie->has_data = letters[0] == 'z';
	if (ra != HW_RA || (letters[0] && !cie->has_data) ||
	    (cie->has_data && !read_augmentation(cie, letters + 1, take_block(&c))))
		return;
	struct run run = { .cie = cie, .state = { .cfa = DT_CFA_HARD } };
	cie->is_valid = run_all(&run, c) && !c.failed;
	cie->start = run.state;
}

static const struct cie *find_cie(const struct compiler *compiler, uint64_t offset)
{
	size_t n = sorted_count(compiler->cies.count, i, compiler->cies.items[i].offset <= offset);

	return n && compiler->cies.items[n - 1].offset == offset ? &compiler->cies.items[n - 1] :
								   NULL;
}

static void read_fde(struct compiler *compiler, const struct cie *cie, struct cursor c)
{
	uint64_t here = compiler->address + (uint64_t)(c.at - compiler->bytes);
	struct run run = { .compiler = compiler, .cie = cie, .state = cie->start };
	uint64_t size;

	run.pc = take_encoded(&c, cie->encoding, here);
	size = take_encoded(&c, cie->encoding & 0x0f, 0);
	if (cie->has_data)
		take_block(&c);
	if (c.failed || size == 0 || run.pc >= UINT32_MAX || size >= UINT32_MAX - run.pc)
		return;
	run.end = run.pc + size;
	if (!run_all(&run, c))
		run.state.cfa = DT_CFA_HARD, run.state.ra = RULE_HARD;
	if (run.pc < run.end)
		add_row(compiler, row_of(&run.state, cie->is_signal, run.pc));
	add_row(compiler,
		(struct dt_unwind_row){ .pc = (uint32_t)run.end, .cfa_rule = DT_CFA_NONE });
}

/* One record; false: the end, or damage from which there is no going on. */
static bool read_record(struct compiler *compiler, struct cursor *c)
{
	struct cie cie = { .offset = (size_t)(c->at - compiler->bytes) };
	uint64_t length = take(c, 4);
	struct cursor body;
	uint64_t id_at, id;
	const struct cie *found;

	if (length == 0xffffffff)
		length = take(c, 8);
	if (c->failed || length < 4 || length > (uint64_t)(c->end - c->at))
		return false;
	body = (struct cursor){ c->at, c->at + length, false };
	c->at += length;
	id_at = (uint64_t)(body.at - compiler->bytes);
	id = take(&body, 4);
	if (id == 0) {
		read_cie(&cie, body);
		if (!vec_push(&compiler->cies, cie))
			compiler->failed = true;
	} else {
		found = find_cie(compiler, id_at - id);
		if (found && found->is_valid)
			read_fde(compiler, found, body);
	}
	return !compiler->failed;
}

static int compare_rows(const void *a, const void *b)
{
	const struct dt_unwind_row *x = a, *y = b;

	if (x->pc != y->pc)
		return x->pc < y->pc ? -1 : 1;
	/* Where a function ends and another begins, the beginning counts. */
	return (x->cfa_rule != DT_CFA_NONE) - (y->cfa_rule != DT_CFA_NONE);
}

/* Sorted, one row a pc, none that says what the one before it says. */
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
	const struct elf_image *image = &symtab->image;
	const Elf64_Shdr *section = elf_image_section(image, ".eh_frame");
	struct compiler compiler = { .bytes = NULL };
	struct bytes bytes;
	struct cursor c;

	*ret_rows = (struct cfi_rows){ 0 };
	if (!section || !section->sh_addr || section->sh_type == SHT_NOBITS)
		return NULL;
	compiler.address = section->sh_addr;
	bytes = elf_image_bytes(image, section->sh_addr, section->sh_size);
	if (!bytes.size)
		return NULL;
	compiler.bytes = bytes.at;
	c = (struct cursor){ bytes.at, bytes.at + bytes.size, false };
	while (read_record(&compiler, &c))
		;
	vec_free(&compiler.cies);
	if (compiler.failed) {
		vec_free(&compiler.rows);
		return error_new(ERROR_FAILED, "%s: its unwind table is too large", image->path);
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
