/*
 * branch_targets.c
 *
 * A linear sweep over the text, from each range's start, in step again at every function's start.
 * x86 code falls back into step within a few instructions when data lies between functions; what
 * was decoded out of step only adds bits.
 *
 * Jump tables, as compilers write them into read-only data: 32-bit distances from the table's own
 * start, which the code takes with lea. So each address of data that is taken is read as such a
 * table, for as long as its entries lead into the text, up to the next address that is taken
 * (tables lie side by side, and entries of the next one mean nothing here). What isn't a table ends
 * at once or adds bits.
 *
 * Hand-written code computes addresses of its own: lea of a label in the text, some arithmetic,
 * jmp. Where a function holds both, a register it jumps through and the address of code that is no
 * function, anything in it can be reached. The exception are tables of distances from such a label,
 * as compilers make them of computed gotos (vfprintf): movslq (table, index, 4), add, jmp. Then
 * each word around each address of data that the function takes is read as a distance from each of
 * its labels: one that leads into the function may be an entry.
 *
 * Programs that are linked for one address (not PIE) have addresses as plain numbers, too:
 * immediates and displacements. There every four bytes inside an instruction that make an address
 * of code are taken for one.
 */
#include "branch_targets.h"

#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "control/code/prescan.h"

#define PAGE 4096
#define LOWEST_FIXED (64u << 10) /* the kernel maps nothing below it */
#define COMPUTED_SPAN 512 /* bytes around, where no function's bounds are known */
/* bytes of data around an address that is taken, where a table of labels may be */
#define LABELS_BEFORE 4096
#define LABELS_BEHIND 8192

struct text_bits {
	uint64_t address, size;
	uint8_t *bits;
	uint8_t *exact; /* of those, what leads to this very address, not only somewhere here */
};

/* A restartable sequence, or the signature before its abort address. */
struct sequence {
	uint64_t start, end;
};

struct branch_targets {
	const struct symtab *symtab;
	VEC(struct text_bits) ranges;
	VEC(uint64_t) taken; /* addresses of data */
	VEC(uint64_t) starts; /* of functions, sorted */
	VEC(uint64_t) reads; /* text that is data to some instruction, sorted */
	VEC(struct sequence) sequences;
	bool everything; /* all of it can be reached */
	bool is_fixed; /* addresses are numbers */
	bool failed; /* out of memory */
};

static struct text_bits *find_range(const struct branch_targets *branch_targets, uint64_t address)
{
	for (size_t i = 0; i < branch_targets->ranges.count; i++) {
		struct text_bits *range = &branch_targets->ranges.items[i];

		if (address - range->address < range->size)
			return range;
	}
	return NULL;
}

/* Something may lead there. */
static void mark_doubt(struct branch_targets *branch_targets, uint64_t address)
{
	struct text_bits *range = find_range(branch_targets, address);
	uint64_t at = range ? address - range->address : 0;

	if (range)
		range->bits[at / 8] |= (uint8_t)(1u << (at % 8));
}

/* Something does. */
static void mark(struct branch_targets *branch_targets, uint64_t address)
{
	struct text_bits *range = find_range(branch_targets, address);
	uint64_t at = range ? address - range->address : 0;

	mark_doubt(branch_targets, address);
	if (range)
		range->exact[at / 8] |= (uint8_t)(1u << (at % 8));
}

/* Or a number. */
static void mark_word(void *context, uint64_t address)
{
	mark_doubt(context, address);
}

static void mark_pointer(void *context, uint64_t address)
{
	mark(context, address);
}

static void mark_table(struct branch_targets *branch_targets, uint64_t table, uint64_t end)
{
	for (uint64_t at = table; at + sizeof(int32_t) <= end; at += sizeof(int32_t)) {
		int32_t entry;

		if (symtab_data(branch_targets->symtab, at, &entry, sizeof(entry)) != sizeof(entry))
			return;
		if (!find_range(branch_targets, table + (uint64_t)(int64_t)entry))
			return;
		/* it may be no table at all */
		mark_doubt(branch_targets, table + (uint64_t)(int64_t)entry);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void mark_tables(struct branch_targets *branch_targets)
{
	uint64_t *taken = branch_targets->taken.items;
	size_t count = branch_targets->taken.count, next;

	if (count)
		qsort(taken, count, sizeof(*taken), by_value);
	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && taken[next] == taken[i]; next++)
			;
		mark_table(branch_targets, taken[i],
			   next < count ? taken[next] : symtab_high(branch_targets->symtab));
	}
	vec_free(&branch_targets->taken);
}

static void mark_taken(struct branch_targets *branch_targets, uint64_t address)
{
	if (find_range(branch_targets, address))
		mark(branch_targets, address);
	else if (!vec_push(&branch_targets->taken, address))
		branch_targets->failed = true;
}

static void mark_all(struct branch_targets *branch_targets, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		mark_doubt(branch_targets, from);
}

static bool jumps_by_register(const struct prescan *insn)
{
	return insn->flow == FLOW_JUMP_INDIRECT && PRESCAN_MOD(insn) == 3;
}

/* Code that is swept in one go: a function, or what lies between two known ones. */
struct stretch {
	uint64_t from, to;
	bool is_function;
	/* the last instruction that took an address in it, and that; 0: none */
	uint64_t taker, taken;
	enum { JUMPS_NONE, JUMPS_BY_TABLE, JUMPS_COMPUTED } jumps; /* through registers */
	size_t first_data; /* of branch_targets.taken */
	VEC(uint64_t) labels; /* that it takes of its own code */
};

/* The two instructions before a jump, as far as tables of labels have them. */
struct lead_in {
	bool loads; /* movslq (x, y, 4), z */
	bool adds; /* directly behind that: add x, z, or lea (x, y), z */
};

static void follow(struct lead_in *lead, const struct prescan *insn)
{
	lead->adds = lead->loads && ((insn->kind == PRESCAN_ADD && PRESCAN_MOD(insn) == 3) ||
				     insn->kind == PRESCAN_LEA);
	lead->loads = insn->kind == PRESCAN_MOVSXD && PRESCAN_MOD(insn) != 3 &&
		      PRESCAN_RM(insn) == 4 && PRESCAN_SCALE(insn) == 2;
}

/* A jump through a register that may hold what was taken. */
static void mark_computed(struct branch_targets *branch_targets, const struct stretch *stretch, uint64_t at)
{
	if (stretch->taker && at - stretch->taker < COMPUTED_SPAN) {
		mark_all(branch_targets, stretch->taker - COMPUTED_SPAN, at + COMPUTED_SPAN);
		mark_all(branch_targets, stretch->taken - COMPUTED_SPAN, stretch->taken + COMPUTED_SPAN);
	}
}

/* Seen: V8 loads a constant from inside the instruction that had it first. */
static void note_read(struct branch_targets *branch_targets, uint64_t address)
{
	if (find_range(branch_targets, address) && !vec_push(&branch_targets->reads, address))
		branch_targets->failed = true;
}

/* Distances from one of the function's labels in the data around an address. */
static void mark_labels(struct branch_targets *branch_targets, const struct stretch *stretch, uint64_t label,
			uint64_t data)
{
	uint64_t at = (data > LABELS_BEFORE ? data - LABELS_BEFORE : 0) & ~3ULL;
	int32_t entry;

	for (; at < data + LABELS_BEHIND; at += sizeof(entry)) {
		if (symtab_data(branch_targets->symtab, at, &entry, sizeof(entry)) != sizeof(entry))
			continue;
		if (label + (uint64_t)(int64_t)entry - stretch->from < stretch->to - stretch->from)
			mark_doubt(branch_targets, label + (uint64_t)(int64_t)entry);
	}
}

/* All of the function is known: where do its jumps through registers lead? */
static void mark_jumps(struct branch_targets *branch_targets, const struct stretch *stretch)
{
	if (!stretch->is_function || !stretch->labels.count || stretch->jumps == JUMPS_NONE)
		return;
	if (stretch->jumps == JUMPS_COMPUTED) {
		mark_all(branch_targets, stretch->from, stretch->to);
		return;
	}
	for (size_t i = 0; i < stretch->labels.count; i++) {
		for (size_t j = stretch->first_data; j < branch_targets->taken.count; j++)
			mark_labels(branch_targets, stretch, stretch->labels.items[i],
				    branch_targets->taken.items[j]);
	}
}

static void note_jump(struct branch_targets *branch_targets, struct stretch *stretch, const struct lead_in *lead,
		      uint64_t at)
{
	if (!stretch->is_function)
		mark_computed(branch_targets, stretch, at);
	else if (!lead->adds)
		stretch->jumps = JUMPS_COMPUTED;
	else if (stretch->jumps == JUMPS_NONE)
		stretch->jumps = JUMPS_BY_TABLE;
}

static void note_label(struct branch_targets *branch_targets, struct stretch *stretch, uint64_t at,
		       uint64_t label)
{
	if (label <= stretch->from || label >= stretch->to)
		return;
	stretch->taker = at;
	stretch->taken = label;
	branch_targets->failed |= !vec_push(&stretch->labels, label);
}

/* Behind the opcode's first byte, wherever an immediate or a displacement may be. */
static void mark_numbers(struct branch_targets *branch_targets, struct stretch *stretch, uint64_t at,
			 const uint8_t *bytes, size_t length)
{
	uint32_t number;

	for (size_t i = 1; i + sizeof(number) <= length; i++) {
		memcpy(&number, bytes + i, sizeof(number));
		if (!find_range(branch_targets, number))
			continue;
		mark_doubt(branch_targets, number);
		note_label(branch_targets, stretch, at, number);
	}
}

static void sweep(struct branch_targets *branch_targets, const uint8_t *bytes, struct stretch stretch)
{
	struct lead_in lead = { 0 };
	struct prescan insn;

	stretch.first_data = branch_targets->taken.count;

	for (uint64_t at = stretch.from; at < stretch.to; at += insn.length) {
		if (!prescan(bytes + (at - stretch.from), stretch.to - at, taddr_of(at), &insn)) {
			insn.length = 1;
			continue;
		}
		if (insn.has_target)
			mark(branch_targets, insn.target.v);
		if (insn.rip_relative)
			mark_taken(branch_targets, insn.rip_target.v);
		if (insn.rip_relative && insn.kind != PRESCAN_LEA)
			note_read(branch_targets, insn.rip_target.v);
		if (insn.rip_relative)
			note_label(branch_targets, &stretch, at, insn.rip_target.v);
		if (branch_targets->is_fixed && !insn.has_target)
			mark_numbers(branch_targets, &stretch, at, bytes + (at - stretch.from),
				     insn.length);
		if (jumps_by_register(&insn))
			note_jump(branch_targets, &stretch, &lead, at);
		follow(&lead, &insn);
	}
	mark_jumps(branch_targets, &stretch);
	vec_free(&stretch.labels);
}

static void note_start(void *context, uint64_t address)
{
	struct branch_targets *branch_targets = context;

	mark(branch_targets, address);
	if (!vec_push(&branch_targets->starts, address))
		branch_targets->failed = true;
}

/* Does anything say where the function that starts there ends? */
static bool has_bounds(const struct symtab *symtab, uint64_t start)
{
	const struct symbol *symbol = symtab_at(symtab, start);
	uint64_t low, high;

	return (symbol && symbol->source != SOURCE_ENTRY) || symtab_fde(symtab, start, &low, &high);
}

/* In step at each function's start: from one to the next. */
static void sweep_range(struct branch_targets *branch_targets, const struct text_range *text)
{
	struct stretch stretch = { .from = text->address };
	uint64_t end = text->address + text->size;

	for (size_t i = 0; i < branch_targets->starts.count; i++) {
		uint64_t start = branch_targets->starts.items[i];

		if (start < stretch.from || start >= end)
			continue;
		stretch.to = start;
		sweep(branch_targets, text->bytes + (stretch.from - text->address), stretch);
		stretch = (struct stretch){ .from = start,
					    .is_function = has_bounds(branch_targets->symtab, start) };
	}
	stretch.to = end;
	sweep(branch_targets, text->bytes + (stretch.from - text->address), stretch);
}

static struct error *add_ranges(struct branch_targets *branch_targets)
{
	const struct symtab *symtab = branch_targets->symtab;
	uint64_t at = symtab_low(symtab) / PAGE * PAGE;

	while (at < symtab_high(symtab)) {
		const struct text_range *text = symtab_text(symtab, at);

		if (!text) {
			at += PAGE;
			continue;
		}
		uint8_t *bits = calloc(2, text->size / 8 + 1);
		if (!bits ||
		    !vec_push(&branch_targets->ranges, (struct text_bits){ text->address, text->size, bits,
								    bits + text->size / 8 + 1 })) {
			free(bits);
			return error_new(ERROR_FAILED, "out of memory");
		}
		at = (text->address + text->size + PAGE - 1) / PAGE * PAGE;
	}
	return NULL;
}

static void cleanup_branch_targets(struct branch_targets **branch_targets)
{
	branch_targets_free(*branch_targets);
}

static void note_sequence(void *context, uint64_t start, uint64_t end, uint64_t abort)
{
	struct branch_targets *branch_targets = context;

	mark(branch_targets, abort);
	if (!vec_push(&branch_targets->sequences, (struct sequence){ start, end }) ||
	    !vec_push(&branch_targets->sequences, (struct sequence){ abort - sizeof(uint32_t), abort }))
		branch_targets->failed = true;
}

/* What is long and has no unwind table comes with a runtime of its own, which may enter it anywhere
 * (unwind_coverage.c). */
struct rest {
	struct branch_targets *branch_targets;
	uint64_t from;
};

static void mark_up_to(void *context, uint64_t start, uint64_t end)
{
	struct rest *rest = context;

	if (find_range(rest->branch_targets, rest->from) == find_range(rest->branch_targets, start))
		mark_all(rest->branch_targets, rest->from, start);
	rest->from = end;
}

static void mark_undescribed(struct branch_targets *branch_targets)
{
	struct rest rest = { .branch_targets = branch_targets };

	symtab_each_unwind_covered(branch_targets->symtab, SYM_UNCOVERED_MIN, mark_up_to, &rest);
}

struct error *branch_targets_scan(const struct symtab *symtab, struct branch_targets **ret_inbound)
{
	_cleanup_(cleanup_branch_targets) struct branch_targets *branch_targets = calloc(1, sizeof(*branch_targets));

	if (!branch_targets)
		return error_new(ERROR_FAILED, "out of memory");
	branch_targets->symtab = symtab;
	branch_targets->is_fixed = symtab_low(symtab) >= LOWEST_FIXED;
	struct error *error = add_ranges(branch_targets);
	if (error)
		return error;
	symtab_each_function_start(symtab, note_start, branch_targets);
	if (branch_targets->starts.count)
		qsort(branch_targets->starts.items, branch_targets->starts.count, sizeof(uint64_t), by_value);
	for (size_t i = 0; i < branch_targets->ranges.count; i++)
		sweep_range(branch_targets, symtab_text(symtab, branch_targets->ranges.items[i].address));
	symtab_each_rseq(symtab, note_sequence, branch_targets);
	if (branch_targets->failed)
		return error_new(ERROR_FAILED, "out of memory");
	if (branch_targets->reads.count)
		qsort(branch_targets->reads.items, branch_targets->reads.count, sizeof(uint64_t), by_value);
	mark_tables(branch_targets);
	symtab_each_pointer(symtab, mark_word, branch_targets);
	mark_undescribed(branch_targets);
	symtab_each_landing_pad(symtab, mark_pointer, branch_targets);
	branch_targets->everything = symtab_is_go(symtab);
	branch_targets->symtab = NULL; /* it needn't live as long */
	*ret_inbound = take_ptr(&branch_targets);
	return NULL;
}

void branch_targets_free(struct branch_targets *branch_targets)
{
	if (!branch_targets)
		return;
	for (size_t i = 0; i < branch_targets->ranges.count; i++)
		free(branch_targets->ranges.items[i].bits);
	vec_free(&branch_targets->ranges);
	vec_free(&branch_targets->taken);
	vec_free(&branch_targets->sequences);
	vec_free(&branch_targets->starts);
	vec_free(&branch_targets->reads);
	free(branch_targets);
}

bool branch_targets_at(const struct branch_targets *branch_targets, uint64_t address)
{
	const struct text_bits *range = find_range(branch_targets, address);
	uint64_t at = range ? address - range->address : 0;

	return !range || branch_targets->everything || (range->bits[at / 8] >> (at % 8) & 1);
}

bool branch_targets_is_read(const struct branch_targets *branch_targets, uint64_t start, uint64_t end)
{
	size_t n = sorted_count(branch_targets->reads.count, i, branch_targets->reads.items[i] < start);

	return n < branch_targets->reads.count && branch_targets->reads.items[n] < end;
}

bool branch_targets_inside(const struct branch_targets *branch_targets, uint64_t start, uint64_t end)
{
	const struct text_bits *range = find_range(branch_targets, start);

	for (uint64_t i = start + 1; i < end && range; i++) {
		uint64_t at = i - range->address;

		if (at < range->size && (range->exact[at / 8] >> (at % 8) & 1))
			return true;
	}
	return false;
}

bool branch_targets_is_sequence(const struct branch_targets *branch_targets, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < branch_targets->sequences.count; i++) {
		if (start < branch_targets->sequences.items[i].end &&
		    end > branch_targets->sequences.items[i].start)
			return true;
	}
	return false;
}
