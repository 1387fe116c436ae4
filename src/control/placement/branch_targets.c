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

struct inbound {
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

static struct text_bits *find_range(const struct inbound *inbound, uint64_t address)
{
	for (size_t i = 0; i < inbound->ranges.count; i++) {
		struct text_bits *range = &inbound->ranges.items[i];

		if (address - range->address < range->size)
			return range;
	}
	return NULL;
}

/* Something may lead there. */
static void mark_doubt(struct inbound *inbound, uint64_t address)
{
	struct text_bits *range = find_range(inbound, address);
	uint64_t at = range ? address - range->address : 0;

	if (range)
		range->bits[at / 8] |= (uint8_t)(1u << (at % 8));
}

/* Something does. */
static void mark(struct inbound *inbound, uint64_t address)
{
	struct text_bits *range = find_range(inbound, address);
	uint64_t at = range ? address - range->address : 0;

	mark_doubt(inbound, address);
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

static void mark_table(struct inbound *inbound, uint64_t table, uint64_t end)
{
	for (uint64_t at = table; at + sizeof(int32_t) <= end; at += sizeof(int32_t)) {
		int32_t entry;

		if (symtab_data(inbound->symtab, at, &entry, sizeof(entry)) != sizeof(entry))
			return;
		if (!find_range(inbound, table + (uint64_t)(int64_t)entry))
			return;
		/* it may be no table at all */
		mark_doubt(inbound, table + (uint64_t)(int64_t)entry);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void mark_tables(struct inbound *inbound)
{
	uint64_t *taken = inbound->taken.items;
	size_t count = inbound->taken.count, next;

	if (count)
		qsort(taken, count, sizeof(*taken), by_value);
	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && taken[next] == taken[i]; next++)
			;
		mark_table(inbound, taken[i],
			   next < count ? taken[next] : symtab_high(inbound->symtab));
	}
	vec_free(&inbound->taken);
}

static void mark_taken(struct inbound *inbound, uint64_t address)
{
	if (find_range(inbound, address))
		mark(inbound, address);
	else if (!vec_push(&inbound->taken, address))
		inbound->failed = true;
}

static void mark_all(struct inbound *inbound, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		mark_doubt(inbound, from);
}

static bool jumps_by_register(const struct glance *insn)
{
	return insn->flow == FLOW_JUMP_INDIRECT && GLANCE_MOD(insn) == 3;
}

/* Code that is swept in one go: a function, or what lies between two known ones. */
struct stretch {
	uint64_t from, to;
	bool is_function;
	/* the last instruction that took an address in it, and that; 0: none */
	uint64_t taker, taken;
	enum { JUMPS_NONE, JUMPS_BY_TABLE, JUMPS_COMPUTED } jumps; /* through registers */
	size_t first_data; /* of inbound.taken */
	VEC(uint64_t) labels; /* that it takes of its own code */
};

/* The two instructions before a jump, as far as tables of labels have them. */
struct lead_in {
	bool loads; /* movslq (x, y, 4), z */
	bool adds; /* directly behind that: add x, z, or lea (x, y), z */
};

static void follow(struct lead_in *lead, const struct glance *insn)
{
	lead->adds = lead->loads && ((insn->kind == GLANCE_ADD && GLANCE_MOD(insn) == 3) ||
				     insn->kind == GLANCE_LEA);
	lead->loads = insn->kind == GLANCE_MOVSXD && GLANCE_MOD(insn) != 3 &&
		      GLANCE_RM(insn) == 4 && GLANCE_SCALE(insn) == 2;
}

/* A jump through a register that may hold what was taken. */
static void mark_computed(struct inbound *inbound, const struct stretch *stretch, uint64_t at)
{
	if (stretch->taker && at - stretch->taker < COMPUTED_SPAN) {
		mark_all(inbound, stretch->taker - COMPUTED_SPAN, at + COMPUTED_SPAN);
		mark_all(inbound, stretch->taken - COMPUTED_SPAN, stretch->taken + COMPUTED_SPAN);
	}
}

/* Seen: V8 loads a constant from inside the instruction that had it first. */
static void note_read(struct inbound *inbound, uint64_t address)
{
	if (find_range(inbound, address) && !vec_push(&inbound->reads, address))
		inbound->failed = true;
}

/* Distances from one of the function's labels in the data around an address. */
static void mark_labels(struct inbound *inbound, const struct stretch *stretch, uint64_t label,
			uint64_t data)
{
	uint64_t at = (data > LABELS_BEFORE ? data - LABELS_BEFORE : 0) & ~3ULL;
	int32_t entry;

	for (; at < data + LABELS_BEHIND; at += sizeof(entry)) {
		if (symtab_data(inbound->symtab, at, &entry, sizeof(entry)) != sizeof(entry))
			continue;
		if (label + (uint64_t)(int64_t)entry - stretch->from < stretch->to - stretch->from)
			mark_doubt(inbound, label + (uint64_t)(int64_t)entry);
	}
}

/* All of the function is known: where do its jumps through registers lead? */
static void mark_jumps(struct inbound *inbound, const struct stretch *stretch)
{
	if (!stretch->is_function || !stretch->labels.count || stretch->jumps == JUMPS_NONE)
		return;
	if (stretch->jumps == JUMPS_COMPUTED) {
		mark_all(inbound, stretch->from, stretch->to);
		return;
	}
	for (size_t i = 0; i < stretch->labels.count; i++) {
		for (size_t j = stretch->first_data; j < inbound->taken.count; j++)
			mark_labels(inbound, stretch, stretch->labels.items[i],
				    inbound->taken.items[j]);
	}
}

static void note_jump(struct inbound *inbound, struct stretch *stretch, const struct lead_in *lead,
		      uint64_t at)
{
	if (!stretch->is_function)
		mark_computed(inbound, stretch, at);
	else if (!lead->adds)
		stretch->jumps = JUMPS_COMPUTED;
	else if (stretch->jumps == JUMPS_NONE)
		stretch->jumps = JUMPS_BY_TABLE;
}

static void note_label(struct inbound *inbound, struct stretch *stretch, uint64_t at,
		       uint64_t label)
{
	if (label <= stretch->from || label >= stretch->to)
		return;
	stretch->taker = at;
	stretch->taken = label;
	inbound->failed |= !vec_push(&stretch->labels, label);
}

/* Behind the opcode's first byte, wherever an immediate or a displacement may be. */
static void mark_numbers(struct inbound *inbound, struct stretch *stretch, uint64_t at,
			 const uint8_t *bytes, size_t length)
{
	uint32_t number;

	for (size_t i = 1; i + sizeof(number) <= length; i++) {
		memcpy(&number, bytes + i, sizeof(number));
		if (!find_range(inbound, number))
			continue;
		mark_doubt(inbound, number);
		note_label(inbound, stretch, at, number);
	}
}

static void sweep(struct inbound *inbound, const uint8_t *bytes, struct stretch stretch)
{
	struct lead_in lead = { 0 };
	struct glance insn;

	stretch.first_data = inbound->taken.count;

	for (uint64_t at = stretch.from; at < stretch.to; at += insn.length) {
		if (!glance(bytes + (at - stretch.from), stretch.to - at, taddr_of(at), &insn)) {
			insn.length = 1;
			continue;
		}
		if (insn.has_target)
			mark(inbound, insn.target.v);
		if (insn.rip_relative)
			mark_taken(inbound, insn.rip_target.v);
		if (insn.rip_relative && insn.kind != GLANCE_LEA)
			note_read(inbound, insn.rip_target.v);
		if (insn.rip_relative)
			note_label(inbound, &stretch, at, insn.rip_target.v);
		if (inbound->is_fixed && !insn.has_target)
			mark_numbers(inbound, &stretch, at, bytes + (at - stretch.from),
				     insn.length);
		if (jumps_by_register(&insn))
			note_jump(inbound, &stretch, &lead, at);
		follow(&lead, &insn);
	}
	mark_jumps(inbound, &stretch);
	vec_free(&stretch.labels);
}

static void note_start(void *context, uint64_t address)
{
	struct inbound *inbound = context;

	mark(inbound, address);
	if (!vec_push(&inbound->starts, address))
		inbound->failed = true;
}

/* Does anything say where the function that starts there ends? */
static bool has_bounds(const struct symtab *symtab, uint64_t start)
{
	const struct symbol *symbol = symtab_at(symtab, start);
	uint64_t low, high;

	return (symbol && symbol->source != SOURCE_ENTRY) || symtab_fde(symtab, start, &low, &high);
}

/* In step at each function's start: from one to the next. */
static void sweep_range(struct inbound *inbound, const struct text_range *text)
{
	struct stretch stretch = { .from = text->address };
	uint64_t end = text->address + text->size;

	for (size_t i = 0; i < inbound->starts.count; i++) {
		uint64_t start = inbound->starts.items[i];

		if (start < stretch.from || start >= end)
			continue;
		stretch.to = start;
		sweep(inbound, text->bytes + (stretch.from - text->address), stretch);
		stretch = (struct stretch){ .from = start,
					    .is_function = has_bounds(inbound->symtab, start) };
	}
	stretch.to = end;
	sweep(inbound, text->bytes + (stretch.from - text->address), stretch);
}

static struct error *add_ranges(struct inbound *inbound)
{
	const struct symtab *symtab = inbound->symtab;
	uint64_t at = symtab_low(symtab) / PAGE * PAGE;

	while (at < symtab_high(symtab)) {
		const struct text_range *text = symtab_text(symtab, at);

		if (!text) {
			at += PAGE;
			continue;
		}
		uint8_t *bits = calloc(2, text->size / 8 + 1);
		if (!bits ||
		    !vec_push(&inbound->ranges, (struct text_bits){ text->address, text->size, bits,
								    bits + text->size / 8 + 1 })) {
			free(bits);
			return error_new(ERROR_FAILED, "out of memory");
		}
		at = (text->address + text->size + PAGE - 1) / PAGE * PAGE;
	}
	return NULL;
}

static void cleanup_inbound(struct inbound **inbound)
{
	inbound_free(*inbound);
}

static void note_sequence(void *context, uint64_t start, uint64_t end, uint64_t abort)
{
	struct inbound *inbound = context;

	mark(inbound, abort);
	if (!vec_push(&inbound->sequences, (struct sequence){ start, end }) ||
	    !vec_push(&inbound->sequences, (struct sequence){ abort - sizeof(uint32_t), abort }))
		inbound->failed = true;
}

/* What is long and has no unwind table comes with a runtime of its own, which may enter it anywhere
 * (unwind_coverage.c). */
struct rest {
	struct inbound *inbound;
	uint64_t from;
};

static void mark_up_to(void *context, uint64_t start, uint64_t end)
{
	struct rest *rest = context;

	if (find_range(rest->inbound, rest->from) == find_range(rest->inbound, start))
		mark_all(rest->inbound, rest->from, start);
	rest->from = end;
}

static void mark_undescribed(struct inbound *inbound)
{
	struct rest rest = { .inbound = inbound };

	symtab_each_described(inbound->symtab, SYM_UNDESCRIBED_MIN, mark_up_to, &rest);
}

struct error *inbound_scan(const struct symtab *symtab, struct inbound **ret_inbound)
{
	_cleanup_(cleanup_inbound) struct inbound *inbound = calloc(1, sizeof(*inbound));

	if (!inbound)
		return error_new(ERROR_FAILED, "out of memory");
	inbound->symtab = symtab;
	inbound->is_fixed = symtab_low(symtab) >= LOWEST_FIXED;
	struct error *error = add_ranges(inbound);
	if (error)
		return error;
	symtab_each_function_start(symtab, note_start, inbound);
	if (inbound->starts.count)
		qsort(inbound->starts.items, inbound->starts.count, sizeof(uint64_t), by_value);
	for (size_t i = 0; i < inbound->ranges.count; i++)
		sweep_range(inbound, symtab_text(symtab, inbound->ranges.items[i].address));
	symtab_each_rseq(symtab, note_sequence, inbound);
	if (inbound->failed)
		return error_new(ERROR_FAILED, "out of memory");
	if (inbound->reads.count)
		qsort(inbound->reads.items, inbound->reads.count, sizeof(uint64_t), by_value);
	mark_tables(inbound);
	symtab_each_pointer(symtab, mark_word, inbound);
	mark_undescribed(inbound);
	error = symtab_each_landing_pad(symtab, mark_pointer, inbound);
	if (error)
		return error;
	inbound->everything = symtab_is_go(symtab);
	inbound->symtab = NULL; /* it needn't live as long */
	*ret_inbound = take_ptr(&inbound);
	return NULL;
}

void inbound_free(struct inbound *inbound)
{
	if (!inbound)
		return;
	for (size_t i = 0; i < inbound->ranges.count; i++)
		free(inbound->ranges.items[i].bits);
	vec_free(&inbound->ranges);
	vec_free(&inbound->taken);
	vec_free(&inbound->sequences);
	vec_free(&inbound->starts);
	vec_free(&inbound->reads);
	free(inbound);
}

bool inbound_at(const struct inbound *inbound, uint64_t address)
{
	const struct text_bits *range = find_range(inbound, address);
	uint64_t at = range ? address - range->address : 0;

	return !range || inbound->everything || (range->bits[at / 8] >> (at % 8) & 1);
}

bool inbound_is_read(const struct inbound *inbound, uint64_t start, uint64_t end)
{
	size_t n = sorted_count(inbound->reads.count, i, inbound->reads.items[i] < start);

	return n < inbound->reads.count && inbound->reads.items[n] < end;
}

bool inbound_inside(const struct inbound *inbound, uint64_t start, uint64_t end)
{
	const struct text_bits *range = find_range(inbound, start);

	for (uint64_t i = start + 1; i < end && range; i++) {
		uint64_t at = i - range->address;

		if (at < range->size && (range->exact[at / 8] >> (at % 8) & 1))
			return true;
	}
	return false;
}

bool inbound_is_sequence(const struct inbound *inbound, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < inbound->sequences.count; i++) {
		if (start < inbound->sequences.items[i].end &&
		    end > inbound->sequences.items[i].start)
			return true;
	}
	return false;
}
