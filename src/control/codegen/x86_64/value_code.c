#include "control/codegen/value_code.h"

#include <assert.h>
#include <string.h>

#include "shared/layout.h"
#include "shared/reads.h"
#include "control/codegen/record_code.h"

#define READ_DEPTH_MAX 3
#define LOAD_DEPTH_MAX 2 /* emit_bytes_at needs rdx and rbx */
#define PAGE_SHIFT 12

_Static_assert(1u << PAGE_SHIFT == DT_PAGE, "pages");

static const enum reg stack_regs[VALUE_DEPTH_MAX] = { RAX, RCX, RDX, RBX };

static const struct {
	uint8_t code;
	enum alu alu;
} alus[] = {
	{ DT_OP_ADD, ALU_ADD }, { DT_OP_SUB, ALU_SUB }, { DT_OP_AND, ALU_AND },
	{ DT_OP_OR, ALU_OR },	{ DT_OP_XOR, ALU_XOR },
};

static const struct {
	uint8_t code;
	enum cond cc;
} conditions[] = {
	{ DT_OP_EQ, CC_E },  { DT_OP_NE, CC_NE },  { DT_OP_LT, CC_L },	{ DT_OP_LE, CC_LE },
	{ DT_OP_GT, CC_G },  { DT_OP_GE, CC_GE },  { DT_OP_LTU, CC_B }, { DT_OP_LEU, CC_BE },
	{ DT_OP_GTU, CC_A }, { DT_OP_GEU, CC_AE },
};

enum reg value_top(const struct value_walk *w, size_t below)
{
	assert(below < w->depth && w->depth <= VALUE_DEPTH_MAX);
	return stack_regs[w->depth - 1 - below];
}

/* Makes room for one more number; false: too many. */
static bool grow(struct value_walk *w)
{
	if (w->depth >= (w->reads ? READ_DEPTH_MAX : VALUE_DEPTH_MAX))
		w->failed = true;
	else
		w->depth++;
	return !w->failed;
}

static bool shrink(struct value_walk *w, size_t needed)
{
	if (w->depth < needed)
		w->failed = true;
	return !w->failed;
}

/* Pushes a word that the entry kept for the exit. */
static void push_kept(struct value_walk *w, unsigned number)
{
	if (!w->at_exit || number >= DT_KEPT_MAX)
		w->failed = true;
	else if (grow(w) && w->e) {
		enum reg to = value_top(w, 0);
		int32_t at = w->reads ? w->reads->saved_at(w->reads, RSI) : -1;

		if (at >= 0)
			emit_load(w->e, to, mem_at(RSP, at));
		emit_load(w->e, to, mem_at(at >= 0 ? to : RSI, (int32_t)DT_KEPT_AT(number)));
	}
}

/* Where the register was saved, from rsp; -1: it still holds the program's value. */
static int32_t saved_at(const struct value_walk *w, enum reg reg)
{
	int32_t at = record_saved_at(reg);

	if (!w->reads)
		return at;
	return at >= 0 ? w->reads->frame + at : w->reads->saved_at(w->reads, reg);
}

static void push_register(struct value_walk *w, enum reg reg)
{
	int32_t at = saved_at(w, reg);
	enum reg to;

	if ((unsigned)reg == DT_REG_DURATION && w->at_exit && w->reads) {
		if (grow(w) && w->e)
			emit_load(w->e, value_top(w, 0), mem_at(RSP, w->reads->duration));
		return;
	}
	if ((unsigned)reg == DT_REG_DURATION) {
		push_kept(w, DT_KEPT_DURATION);
		return;
	}
	if (reg > R15 || (w->at_exit && reg == RSI) || !grow(w)) {
		w->failed = true;
		return;
	}
	if (!w->e)
		return;
	to = value_top(w, 0);
	if (at >= 0)
		emit_load(w->e, to, mem_at(RSP, at));
	else if (reg == RSP)
		emit_lea(w->e, to, mem_at(RSP, w->saved));
	else
		emit_mov(w->e, to, reg);
}

static void cut(struct value_walk *w, uint8_t shift, uint16_t bits, bool is_signed)
{
	enum reg reg;

	if (!shrink(w, 1) || shift > 63 || bits > 64 || (bits && shift + bits > 64)) {
		w->failed = true;
		return;
	}
	if (!w->e)
		return;
	reg = value_top(w, 0);
	bits = bits ? bits : 64;
	if (shift + bits < 64)
		emit_shl_imm(w->e, reg, (uint8_t)(64 - shift - bits));
	if (bits < 64 && is_signed)
		emit_sar_imm(w->e, reg, (uint8_t)(64 - bits));
	else if (bits < 64)
		emit_shr_imm(w->e, reg, (uint8_t)(64 - bits));
}

/* Pushes a word of the frame: REG rsp, OFFSET, LOAD. Returns the number of operations; 0: they
 * aren't such a load. */
static size_t frame_load(struct value_walk *w, size_t at)
{
	const struct dt_op *op = &w->ops[at];
	uint8_t size;

	if (at + 2 >= w->count || op[0].code != DT_OP_REG || op[0].a != RSP ||
	    op[1].code != DT_OP_OFFSET || (int32_t)op[1].c < 0 || op[2].code != DT_OP_LOAD)
		return 0;
	size = op[2].a;
	if ((size != 1 && size != 2 && size != 4 && size != 8) || !grow(w)) {
		w->failed = true;
		return 3;
	}
	if (w->e)
		emit_load_size(w->e, value_top(w, 0), mem_at(RSP, w->saved + (int32_t)op[1].c),
			       size);
	if (op[2].b && size < 8)
		cut(w, 0, (uint16_t)(size * 8), true);
	return 3;
}

/* After a look into the table in rdx: CC_A says that the page isn't known. Leads to reads->quit
 * unless the bytes are in memory that is known as a whole (X15). */
static void emit_check_opened(struct emitter *e, const struct value_reads *reads, enum reg reg)
{
	int32_t at = (int32_t)(DT_PAGES * sizeof(uint64_t));
	struct label known = { 0 };

	emit_jcc_short(e, CC_BE, &known);
	emit_mov(e, RBX, reg);
	emit_sub_mem(e, RBX, mem_at(RDX, at + (int32_t)offsetof(struct dt_opened, start)));
	emit_cmp_mem(e, RBX, mem_at(RDX, at + (int32_t)offsetof(struct dt_opened, words)));
	emit_jcc(e, CC_AE, reads->quit);
	emit_bind(e, &known);
}

/* reg = the bytes there, all in one page that is known. rdx and rbx are lost. */
static void emit_bytes_at(struct emitter *e, const struct value_reads *reads, enum reg reg,
			  uint8_t size)
{
	emit_mov(e, RBX, reg);
	emit_shr_imm(e, RBX, PAGE_SHIFT - 3);
	emit_and_imm32(e, RBX, 8 * (DT_PAGES - 1));
	emit_mov_imm(e, RDX, reads->pages.v);
	emit_load(e, RBX, mem_index(RDX, RBX, 1, 0));
	emit_alu(e, ALU_SUB, RBX, reg);
	emit_add_imm(e, RBX, -(int32_t)size);
	emit_alu_imm(e, ALU_CMP, RBX, (int32_t)DT_PAGE - size);
	if (reads->opened)
		emit_check_opened(e, reads, reg);
	else
		emit_jcc(e, CC_A, reads->quit);
	emit_mark(e, reads->quit);
	emit_load_size(e, reg, mem_at(reg, 0), size);
}

/* Loads through a pointer; what can't be loaded at once leads to w->reads->quit. */
static void load(struct value_walk *w, uint8_t size, bool is_signed)
{
	if (!w->reads || !shrink(w, 1) || w->depth > LOAD_DEPTH_MAX ||
	    (size != 1 && size != 2 && size != 4 && size != 8)) {
		w->failed = true;
		return;
	}
	w->reads->quits += 2;
	if (w->e)
		emit_bytes_at(w->e, w->reads, value_top(w, 0), size);
	if (size < 8 && is_signed)
		cut(w, 0, (uint16_t)(size * 8), true);
}

/* Does a jump lead between operations that would become one? Both ways leave a number there. */
static bool is_joined(const struct value_walk *w, size_t at, size_t length)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct dt_op *op = &w->ops[i];
		size_t to = i + 1 + op->c;

		if ((op->code == DT_OP_SKIP || op->code == DT_OP_SKIP_ZERO) && to > at &&
		    to < at + length)
			return true;
		if (op->code == DT_OP_CONST || op->code == DT_OP_KEY)
			i++;
	}
	return false;
}

/* The constant at `at`, or the product of two: an index times its elements' size. Gives the number
 * of operations. */
static size_t read_constant(const struct value_walk *w, size_t at, uint64_t *ret_value)
{
	const struct dt_op *op = &w->ops[at];
	uint64_t size;

	memcpy(ret_value, &op[1], sizeof(*ret_value));
	if (at + 4 >= w->count || op[2].code != DT_OP_CONST || op[4].code != DT_OP_MUL ||
	    is_joined(w, at, 5))
		return 2;
	memcpy(&size, &op[3], sizeof(size));
	*ret_value *= size;
	return 5;
}

/* Pushes a constant; or shifts by it, or adds it, if that follows. */
static size_t constant(struct value_walk *w, size_t at)
{
	uint64_t value;

	if (at + 1 >= w->count) {
		w->failed = true;
		return 2;
	}
	size_t used = read_constant(w, at, &value);
	uint8_t next = at + used < w->count && !is_joined(w, at, used + 1) ?
			       w->ops[at + used].code :
			       DT_OP_END;
	if (next >= DT_OP_SHL && next <= DT_OP_SAR) {
		if (!shrink(w, 1) || value > 63) {
			w->failed = true;
			return used + 1;
		}
		if (w->e && value)
			(next == DT_OP_SHL ? emit_shl_imm :
			 next == DT_OP_SHR ? emit_shr_imm :
					     emit_sar_imm)(w->e, value_top(w, 0), (uint8_t)value);
		return used + 1;
	}
	if (next == DT_OP_ADD && (int64_t)value == (int32_t)value && w->depth) {
		if (w->e && value)
			emit_add_imm(w->e, value_top(w, 0), (int32_t)value);
		return used + 1;
	}
	if (grow(w) && w->e)
		emit_mov_imm(w->e, value_top(w, 0), value);
	return used;
}

/* Turns the flags into 1 or 0. mov leaves flags alone. */
static void set_from_flags(struct value_walk *w, enum cond cc)
{
	emit_mov_imm(w->e, value_top(w, 0), 0);
	emit_setcc8(w->e, cc, value_top(w, 0));
}

static bool binary(struct value_walk *w, uint8_t code)
{
	for (size_t i = 0; i < sizeof(alus) / sizeof(alus[0]); i++) {
		if (alus[i].code != code || !shrink(w, 2))
			continue;
		if (w->e)
			emit_alu(w->e, alus[i].alu, value_top(w, 1), value_top(w, 0));
		w->depth--;
		return true;
	}
	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		if (conditions[i].code != code || !shrink(w, 2))
			continue;
		if (w->e)
			emit_alu(w->e, ALU_CMP, value_top(w, 1), value_top(w, 0));
		w->depth--;
		if (w->e)
			set_from_flags(w, conditions[i].cc);
		return true;
	}
	if (code != DT_OP_MUL || !shrink(w, 2))
		return false;
	if (w->e)
		emit_imul(w->e, value_top(w, 1), value_top(w, 0));
	w->depth--;
	return true;
}

size_t value_emit_condition(struct value_walk *w, size_t at, enum cond *ret_cc)
{
	const struct dt_op *op = &w->ops[at];
	size_t length = op->code == DT_OP_CONST ? 3 : 1;
	uint64_t value = 0;

	if (at + length >= w->count || w->depth < (length == 3 ? 1 : 2))
		return 0;
	if (length == 3)
		memcpy(&value, &op[1], sizeof(value));
	if ((int64_t)value != (int32_t)value || is_joined(w, at, length + 1))
		return 0;
	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
		if (conditions[i].code != op[length - 1].code)
			continue;
		if (w->e && length == 3)
			emit_alu_imm(w->e, ALU_CMP, value_top(w, 0), (int32_t)value);
		else if (w->e)
			emit_alu(w->e, ALU_CMP, value_top(w, 1), value_top(w, 0));
		w->depth -= length == 3 ? 1 : 2;
		*ret_cc = conditions[i].cc;
		return length;
	}
	return 0;
}

static bool unary(struct value_walk *w, uint8_t code)
{
	if ((code != DT_OP_LNOT && code != DT_OP_NOT && code != DT_OP_NEG) || !shrink(w, 1))
		return false;
	if (!w->e)
		return true;
	if (code == DT_OP_LNOT) {
		emit_or(w->e, value_top(w, 0), value_top(w, 0));
		set_from_flags(w, CC_E);
		return true;
	}
	emit_not(w->e, value_top(w, 0));
	if (code == DT_OP_NEG)
		emit_add_imm(w->e, value_top(w, 0), 1);
	return true;
}

static void skip(struct value_walk *w, size_t at)
{
	const struct dt_op *op = &w->ops[at];
	bool conditional = op->code == DT_OP_SKIP_ZERO;
	size_t to = at + 1 + op->c;

	if (to > w->count || !shrink(w, 1)) {
		w->failed = true;
		return;
	}
	if (w->e && conditional)
		emit_or(w->e, value_top(w, 0), value_top(w, 0));
	if (w->e && conditional)
		emit_jcc(w->e, CC_E, &w->labels[to]);
	else if (w->e)
		emit_jmp(w->e, &w->labels[to]);
	w->depth--; /* the tested number, or the one that the other way pushes too */
}

/* Translates one operation, or a few that are one instruction; returns their number. */
size_t value_emit(struct value_walk *w, size_t at)
{
	const struct dt_op *op = &w->ops[at];
	size_t fused = frame_load(w, at);

	if (fused)
		return fused;
	switch (op->code) {
	case DT_OP_REG:
		push_register(w, (enum reg)op->a);
		break;
	case DT_OP_XMM:
		if (op->b || op->a > 15)
			w->failed = true;
		else if (grow(w) && w->e)
			emit_mov_from_xmm(w->e, value_top(w, 0), op->a);
		break;
	case DT_OP_KEPT:
		push_kept(w, op->a);
		break;
	case DT_OP_CONST:
		return constant(w, at);
	case DT_OP_OFFSET:
		if (shrink(w, 1) && w->e)
			emit_add_imm(w->e, value_top(w, 0), (int32_t)op->c);
		break;
	case DT_OP_LOAD:
		load(w, op->a, op->b);
		break;
	case DT_OP_BITS:
		cut(w, op->a, op->b, op->c);
		break;
	case DT_OP_SKIP:
	case DT_OP_SKIP_ZERO:
		skip(w, at);
		break;
	default:
		if (!unary(w, op->code) && !binary(w, op->code))
			w->failed = true;
	}
	return 1;
}

