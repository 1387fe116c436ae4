/*
 * unwind.c - the callers of the probe, from the tables that the controller compiled
 * (src/shared/unwind.h).
 *
 * Reads the thread's own stack directly, where it is known. Copies other stacks piece by piece,
 * without faults, and walks in the copy: one system call serves many frames. Walks code without a
 * table by its frame pointer, if that looks like one.
 */
#include "gather.h"

#include "shared/frame.h"
#include "shared/sorted.h"
#include "shared/unwind.h"
#include "find.h"

#define TABLES_MAX 64u
#define FRAME_MAX (1u << 23) /* a larger distance is no frame pointer */

static uint64_t word_at(struct unwind *u, uint64_t address)
{
	if (address & 7) {
		u->broken = true;
		return 0;
	}
	if (address - u->own.start < u->own.end - u->own.start)
		return *(const uint64_t *)address;
	if (address - u->start >= u->size) {
		u->start = address;
		u->has_read = true;
		u->size = safe_read(u->control, address, u->window,
				    WINDOWS * sizeof(struct window)) &
			  ~7ULL;
	}
	if (address - u->start >= u->size) {
		u->broken = true;
		return 0;
	}
	return u->window[(address - u->start) / 8];
}

static const struct dt_unwind_module *find_module(const struct dt_unwind *table, uint64_t pc)
{
	size_t n = sorted_count(table->module_count, i, table->modules[i].start <= pc);

	return n && pc < table->modules[n - 1].end ? &table->modules[n - 1] : NULL;
}

/* The row for pc; NULL: none. */
static const struct dt_unwind_row *find_row(const struct dt_unwind *table, uint64_t pc)
{
	const struct dt_unwind_module *module = NULL;
	const struct dt_unwind_row *rows;
	uint32_t key;
	size_t n;

	for (uint32_t i = 0; table && i < TABLES_MAX && !(module = find_module(table, pc)); i++)
		table = (const struct dt_unwind *)table->next;
	if (!module || !table)
		return NULL;
	rows = (const struct dt_unwind_row *)((const uint8_t *)table + table->rows_offset) +
	       module->first;
	key = (uint32_t)(pc - module->base);
	n = sorted_count(module->count, i, rows[i].pc <= key);
	return n && rows[n - 1].cfa_rule != DT_CFA_NONE ? &rows[n - 1] : NULL;
}

/* The caller of a signal handler: registers that the kernel saved above it. */
static void step_signal(struct unwind *u)
{
	uint64_t sp = u->sp;

	u->pc = word_at(u, sp + DT_SIGNAL_RIP);
	u->bp = word_at(u, sp + DT_SIGNAL_RBP);
	u->sp = word_at(u, sp + DT_SIGNAL_RSP);
	u->exact = true;
}

static uint64_t find_cfa(struct unwind *u, const struct dt_unwind_row *row)
{
	int64_t offset = (int64_t)row->cfa * 8;

	switch (row->cfa_rule) {
	case DT_CFA_RSP:
		return u->sp + (uint64_t)offset;
	case DT_CFA_RBP:
		return u->bp + (uint64_t)offset;
	case DT_CFA_AT_RBP:
		return word_at(u, u->bp + (uint64_t)offset);
	case DT_CFA_HARD:
		u->broken = true;
		return 0;
	default: /* DT_CFA_PLT: one more word is pushed from the entry's 11th byte on */
		return u->sp + 8 + ((u->pc & 15) >= 11 ? 8 : 0);
	}
}

/* A call whose exit is recorded returns through a stub, whose slot has the real return address, or
 * another stub's landing (a tail call). */
static void step_stubs(struct unwind *u)
{
	const struct dt_control *control = u->control;
	const struct dt_returns *returns = (const struct dt_returns *)control->returns;

	for (uint32_t i = 0; returns && i < control->stub_count; i++) {
		uint64_t index = (u->pc - control->stubs) >> DT_STUB_SHIFT;

		if (index >= control->stub_count)
			return;
		/* a signal interrupted the stub behind its push */
		if (u->exact && (u->pc & (DT_STUB_SIZE - 1)) > DT_STUB_LANDING)
			u->sp += 8;
		u->pc = returns->slots[index].ra;
		u->exact = false;
	}
}

/* A signal interrupted a trampoline: continue with the instruction that it stands for. */
static void step_trampoline(struct unwind *u)
{
	struct find_frame frame;

	if (!u->exact || !find_frame(u->control, u->pc, &frame))
		return;
	uint64_t site = (uint64_t)frame.end + (uint64_t)(int64_t)frame.end->site;
	uint32_t origin = frame.row >> DT_FRAME_ORIGIN_SHIFT & DT_FRAME_ORIGIN_MASK;
	if (frame.is_hop) {
		u->pc = site;
		return;
	}
	u->sp += 8ULL * (frame.row >> DT_FRAME_WORDS_SHIFT) - 8;
	u->pc = site + origin;
	if (origin == DT_FRAME_RETURNS) {
		uint64_t word = word_at(u, u->sp - 8);

		u->pc = word < DT_STUBS_MAX ? u->control->stubs + (word << DT_STUB_SHIFT) : word;
		u->exact = false;
	}
}

static void step_table(struct unwind *u, const struct dt_unwind_row *row)
{
	uint64_t cfa = find_cfa(u, row);

	if (u->broken || (cfa <= u->sp && !u->exact)) {
		u->broken = true;
		return;
	}
	if (row->rbp_rule == DT_RBP_SAVED)
		u->bp = word_at(u, cfa + (uint64_t)((int64_t)row->rbp * 8));
	else if (row->rbp_rule == DT_RBP_AT_RBP)
		u->bp = word_at(u, u->bp + (uint64_t)((int64_t)row->rbp * 8));
	u->pc = word_at(u, cfa - 8);
	u->sp = cfa;
	u->exact = false;
}

static void step_frame_pointer(struct unwind *u)
{
	uint64_t bp = u->bp;

	if (bp < u->sp || bp - u->sp > FRAME_MAX || (bp & 7)) {
		u->broken = true;
		return;
	}
	u->bp = word_at(u, bp);
	u->pc = word_at(u, bp + 8);
	u->sp = bp + 16;
	u->exact = false;
}

uint32_t unwind_walk(struct gather *g, uint64_t *frames, uint32_t most)
{
	const struct dt_unwind *table = (const struct dt_unwind *)g->control->unwind;
	const struct dt_return_slot *stub = gather_stub(g);
	struct unwind *u = g->unwind;
	uint32_t count = 0;

	u->control = g->control;
	u->own = g->own;
	u->own.end &= ~7ULL;
	u->window = (uint64_t *)g->windows;
	u->pc = stub ? stub->ra : g->program->rip;
	u->sp = g->regs->general[4] + (stub ? 8 : 0); /* the function has returned */
	u->bp = g->regs->general[5];
	u->exact = !stub;
	u->broken = false;
	u->start = u->size = 0;
	u->has_read = false;
	step_stubs(u);
	while (count < most) {
		const struct dt_unwind_row *row;

		frames[count++] = u->pc;
		row = find_row(table, u->exact ? u->pc : u->pc - 1);
		if (row && row->cfa_rule == DT_CFA_END)
			break;
		if (row && row->cfa_rule == DT_CFA_SIGNAL)
			step_signal(u);
		else if (row)
			step_table(u, row);
		else
			step_frame_pointer(u);
		step_trampoline(u);
		step_stubs(u);
		if (u->broken) {
			if (count < most)
				frames[count++] = DT_FRAME_UNKNOWN;
			break;
		}
		if (!u->pc)
			break;
	}
	if (u->has_read)
		read_cache_clear(g);
	return count;
}
