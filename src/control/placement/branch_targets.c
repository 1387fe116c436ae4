/*
 * The scan is a linear sweep over the text, from each range's start, and in step again at every
 * function's start. x86 code falls back into step within a few instructions when data lies between
 * functions; instructions decoded out of step only add bits.
 *
 * Jump tables: compilers write them into read-only data as 32-bit distances from the table's own
 * start, which the code takes with lea. So each data address that code takes is read as such a
 * table, as long as its entries lead into the text, up to the next taken address (tables lie side
 * by side, and entries of the next table mean nothing here). Data that is no table ends at once or
 * adds bits.
 *
 * Computed addresses: hand-written code takes a label in the text with lea, does some arithmetic,
 * and jumps. If a function both jumps through a register and takes the address of code that is no
 * function, every byte of it counts as reachable. The exception are tables of distances from such a
 * label, as compilers make them for computed gotos (vfprintf): movslq (table, index, 4), add, jmp.
 * Then each word around each data address that the function takes is read as a distance from each
 * of its labels: a word that leads into the function may be an entry. Where that are too many words
 * and labels (megabytes of code without bounds behind a small function), every byte counts instead.
 *
 * Programs linked for one address (not PIE) also hold addresses as plain numbers: immediates and
 * displacements. There every four bytes inside an instruction that form an address of code count as
 * one.
 */
#include "branch_targets.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "control/base/vec.h"
#include "control/code/prescan.h"
#include "go_prologue.h"

#define PAGE 4096
#define LOWEST_FIXED (64u << 10) /* the kernel maps nothing below this address */
#define COMPUTED_SPAN 512 /* bytes around a computed jump, where no function's bounds are known */
/* bytes of data around a taken address that may hold a table of labels */
#define LABELS_BEFORE 4096
#define LABELS_BEHIND 8192
#define LABEL_STEPS_MAX (64u << 20) /* words times labels: a tenth of a second */

struct text_bits {
	uint64_t address, size;
	uint8_t *bits;
	uint8_t *exact; /* the subset that surely are targets, not only doubts */
	uint8_t *apart; /* the subset that not only jumps of the same stretch lead to */
};

/* A restartable sequence, or the signature before its abort address. */
struct sequence {
	uint64_t start, end;
};

struct branch_targets {
	const struct symtab *symtab;
	VEC(struct text_bits) ranges;
	VEC(uint64_t) taken; /* data addresses that code takes */
	VEC(uint64_t) starts; /* of functions, sorted */
	VEC(uint64_t) reads; /* text that instructions read as data, sorted */
	VEC(struct sequence) sequences;
	VEC(uint64_t) checks; /* Go: the branches of stack checks, sorted (go_prologue.h) */
	bool everything; /* every address counts as a target, but those of `checks` */
	bool is_fixed; /* linked for one address: numbers may be addresses */
	bool calls_are_read; /* the runtime looks at its calls: reads_calls() */
	bool failed; /* out of memory */
};

static struct text_bits *find_range(const struct branch_targets *targets, uint64_t address)
{
	for (size_t i = 0; i < targets->ranges.count; i++) {
		struct text_bits *range = &targets->ranges.items[i];

		if (address - range->address < range->size)
			return range;
	}
	return NULL;
}

static void set_bit(uint8_t *bits, uint64_t at)
{
	bits[at / 8] |= (uint8_t)(1u << (at % 8));
}

/* The address may be a target. */
static void mark_doubt(struct branch_targets *targets, uint64_t address)
{
	struct text_bits *range = find_range(targets, address);

	if (!range)
		return;
	set_bit(range->bits, address - range->address);
	set_bit(range->apart, address - range->address);
}

/* The address is a target. */
static void mark(struct branch_targets *targets, uint64_t address)
{
	struct text_bits *range = find_range(targets, address);

	mark_doubt(targets, address);
	if (range)
		set_bit(range->exact, address - range->address);
}

/* The address is the target of a jump in its own stretch. */
static void mark_near(struct branch_targets *targets, uint64_t address)
{
	struct text_bits *range = find_range(targets, address);

	if (!range)
		return;
	set_bit(range->bits, address - range->address);
	set_bit(range->exact, address - range->address);
}

/* A word in data: an address or a number. */
static void mark_word(void *context, uint64_t address)
{
	mark_doubt(context, address);
}

static void mark_pointer(void *context, uint64_t address)
{
	mark(context, address);
}

static void mark_table(struct branch_targets *targets, uint64_t table, uint64_t end)
{
	for (uint64_t at = table; at + sizeof(int32_t) <= end; at += sizeof(int32_t)) {
		int32_t entry;

		if (symtab_data(targets->symtab, at, &entry, sizeof(entry)) != sizeof(entry))
			return;
		if (!find_range(targets, table + (uint64_t)(int64_t)entry))
			return;
		/* a doubt: it may be no table at all */
		mark_doubt(targets, table + (uint64_t)(int64_t)entry);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void mark_tables(struct branch_targets *targets)
{
	uint64_t *taken = targets->taken.items;
	size_t count = targets->taken.count, next;

	if (count)
		qsort(taken, count, sizeof(*taken), by_value);
	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && taken[next] == taken[i]; next++)
			;
		mark_table(targets, taken[i],
			   next < count ? taken[next] : symtab_high(targets->symtab));
	}
	vec_free(&targets->taken);
}

static void mark_taken(struct branch_targets *targets, uint64_t address)
{
	if (find_range(targets, address))
		mark(targets, address);
	else if (!vec_push(&targets->taken, address))
		targets->failed = true;
}

static void mark_all(struct branch_targets *targets, uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		mark_doubt(targets, from);
}

static bool jumps_by_register(const struct prescan *insn)
{
	return insn->flow == FLOW_JUMP_INDIRECT && PRESCAN_MOD(insn) == 3;
}

/* Code that is swept in one go: a function, or the code between two known functions. */
struct stretch {
	uint64_t from, to;
	bool is_function;
	/* the last instruction that took an address in this stretch, and that address; 0: none */
	uint64_t taker, taken;
	enum { JUMPS_NONE, JUMPS_BY_TABLE, JUMPS_COMPUTED } jumps; /* through registers */
	size_t first_data; /* index into branch_targets.taken */
	VEC(uint64_t) labels; /* addresses of its own code that it takes */
};

/* The two instructions before a jump through a table of labels. */
struct lead_in {
	bool loads; /* movslq (x, y, 4), z */
	bool adds; /* directly after that: add x, z, or lea (x, y), z */
};

static void follow(struct lead_in *lead, const struct prescan *insn)
{
	lead->adds = lead->loads && ((insn->kind == PRESCAN_ADD && PRESCAN_MOD(insn) == 3) ||
				     insn->kind == PRESCAN_LEA);
	lead->loads = insn->kind == PRESCAN_MOVSXD && PRESCAN_MOD(insn) != 3 &&
		      PRESCAN_RM(insn) == 4 && PRESCAN_SCALE(insn) == 2;
}

/* Marks the surroundings of a jump through a register that may hold the taken address. */
static void mark_computed(struct branch_targets *targets, const struct stretch *stretch,
			  uint64_t at)
{
	if (stretch->taker && at - stretch->taker < COMPUTED_SPAN) {
		mark_all(targets, stretch->taker - COMPUTED_SPAN, at + COMPUTED_SPAN);
		mark_all(targets, stretch->taken - COMPUTED_SPAN, stretch->taken + COMPUTED_SPAN);
	}
}

/* Seen: V8 loads a constant from inside another instruction's immediate. */
static void note_read(struct branch_targets *targets, uint64_t address)
{
	if (find_range(targets, address) && !vec_push(&targets->reads, address))
		targets->failed = true;
}

/* Seen: Mono finds out who called by the bytes of the call before a return address, and checks the
 * jump in the entry of its own linkage table that the call leads to. Its code tells by that name,
 * which the runtime looks up itself. */
static bool reads_calls(const struct symtab *symtab)
{
	return symtab_find(symtab, "mono_aot_file_info");
}

static bool is_looked_at(const struct prescan *insn)
{
	return insn->flow == FLOW_CALL || insn->flow == FLOW_CALL_INDIRECT ||
	       (insn->flow == FLOW_JUMP_INDIRECT && insn->rip_relative);
}

/* Data around addresses that a function takes, each word of it once. */
struct label_data {
	const uint64_t *around; /* sorted */
	size_t count;
	uint64_t from, to; /* the window at hand */
};

/* Goes to the next window, and leaves out what the windows before it had. */
static bool next_window(struct label_data *data)
{
	if (!data->count)
		return false;
	uint64_t around = *data->around++;
	uint64_t from = (around > LABELS_BEFORE ? around - LABELS_BEFORE : 0) & ~3ULL;

	data->count--;
	data->from = from > data->to ? from : data->to;
	data->to = (around + LABELS_BEHIND + 3) & ~3ULL;
	return true;
}

static uint64_t count_words(struct label_data data)
{
	uint64_t words = 0;

	while (next_window(&data))
		words += (data.to - data.from) / sizeof(int32_t);
	return words;
}

/* Marks where a word leads as a distance from each of the function's labels. */
static void mark_distance(struct branch_targets *targets, const struct stretch *stretch,
			  int32_t distance)
{
	for (size_t i = 0; i < stretch->labels.count; i++) {
		uint64_t to = stretch->labels.items[i] + (uint64_t)(int64_t)distance;

		if (to - stretch->from < stretch->to - stretch->from)
			mark_doubt(targets, to);
	}
}

/* Marks what the data around the addresses that the function takes holds as distances from one of
 * its labels. */
static void mark_labels(struct branch_targets *targets, const struct stretch *stretch,
			struct label_data data)
{
	int32_t entry;

	while (next_window(&data)) {
		for (uint64_t at = data.from; at < data.to; at += sizeof(entry)) {
			if (symtab_data(targets->symtab, at, &entry, sizeof(entry)) ==
			    sizeof(entry))
				mark_distance(targets, stretch, entry);
		}
	}
}

/* Sorts, and keeps one of each. */
static size_t sort_different(uint64_t *items, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(items, count, sizeof(*items), by_value);
	for (size_t i = 0; i < count; i++) {
		if (!kept || items[kept - 1] != items[i])
			items[kept++] = items[i];
	}
	return kept;
}

/* Marks where the function's jumps through registers may lead, once all of it is swept. */
static void mark_jumps(struct branch_targets *targets, struct stretch *stretch)
{
	if (!stretch->is_function || !stretch->labels.count || stretch->jumps == JUMPS_NONE)
		return;
	if (stretch->jumps == JUMPS_COMPUTED) {
		mark_all(targets, stretch->from, stretch->to);
		return;
	}
	if (stretch->first_data == targets->taken.count)
		return;
	uint64_t *taken = targets->taken.items + stretch->first_data;
	size_t count = sort_different(taken, targets->taken.count - stretch->first_data);
	struct label_data data = { .around = taken, .count = count };

	targets->taken.count = stretch->first_data + count;
	stretch->labels.count = sort_different(stretch->labels.items, stretch->labels.count);
	if (count_words(data) > LABEL_STEPS_MAX / stretch->labels.count)
		mark_all(targets, stretch->from, stretch->to);
	else
		mark_labels(targets, stretch, data);
}

static void note_jump(struct branch_targets *targets, struct stretch *stretch,
		      const struct lead_in *lead, uint64_t at)
{
	if (!stretch->is_function)
		mark_computed(targets, stretch, at);
	else if (!lead->adds)
		stretch->jumps = JUMPS_COMPUTED;
	else if (stretch->jumps == JUMPS_NONE)
		stretch->jumps = JUMPS_BY_TABLE;
}

static void note_label(struct branch_targets *targets, struct stretch *stretch, uint64_t at,
		       uint64_t label)
{
	if (label <= stretch->from || label >= stretch->to)
		return;
	stretch->taker = at;
	stretch->taken = label;
	targets->failed |= !vec_push(&stretch->labels, label);
}

/* Marks numbers after the opcode's first byte, wherever an immediate or a displacement may be. */
static void mark_numbers(struct branch_targets *targets, struct stretch *stretch, uint64_t at,
			 const uint8_t *bytes, size_t length)
{
	uint32_t number;

	for (size_t i = 1; i + sizeof(number) <= length; i++) {
		memcpy(&number, bytes + i, sizeof(number));
		if (!find_range(targets, number))
			continue;
		mark_doubt(targets, number);
		note_label(targets, stretch, at, number);
	}
}

static void note_target(struct branch_targets *targets, const struct stretch *stretch,
			const struct prescan *insn)
{
	bool jumps = insn->flow == FLOW_JUMP || insn->flow == FLOW_BRANCH;

	if (jumps && insn->target.v >= stretch->from && insn->target.v < stretch->to)
		mark_near(targets, insn->target.v);
	else
		mark(targets, insn->target.v);
}

static void sweep(struct branch_targets *targets, const uint8_t *bytes, struct stretch stretch)
{
	struct lead_in lead = { 0 };
	struct prescan insn;

	assert(stretch.from <= stretch.to);
	stretch.first_data = targets->taken.count;
	for (uint64_t at = stretch.from; at < stretch.to; at += insn.length) {
		if (!prescan(bytes + (at - stretch.from), stretch.to - at, taddr_of(at), &insn)) {
			insn.length = 1;
			continue;
		}
		if (insn.has_target)
			note_target(targets, &stretch, &insn);
		if (insn.rip_relative)
			mark_taken(targets, insn.rip_target.v);
		if (insn.rip_relative && insn.kind != PRESCAN_LEA)
			note_read(targets, insn.rip_target.v);
		if (targets->calls_are_read && is_looked_at(&insn))
			note_read(targets, at);
		if (insn.rip_relative)
			note_label(targets, &stretch, at, insn.rip_target.v);
		if (targets->is_fixed && !insn.has_target)
			mark_numbers(targets, &stretch, at, bytes + (at - stretch.from),
				     insn.length);
		if (jumps_by_register(&insn))
			note_jump(targets, &stretch, &lead, at);
		follow(&lead, &insn);
	}
	mark_jumps(targets, &stretch);
	vec_free(&stretch.labels);
}

static void note_start(void *context, uint64_t address)
{
	struct branch_targets *targets = context;

	mark(targets, address);
	if (!vec_push(&targets->starts, address))
		targets->failed = true;
}

/* Is the end of the function that starts there known? */
static bool has_bounds(const struct symtab *symtab, uint64_t start)
{
	const struct symbol *symbol = symtab_at(symtab, start);
	uint64_t low, high;

	return (symbol && symbol->source != SOURCE_ENTRY) || symtab_fde(symtab, start, &low, &high);
}

/* Sweeps from each function's start to the next; a large library takes a second. */
static void sweep_range(struct branch_targets *targets, const struct text_range *text)
{
	struct stretch stretch = { .from = text->address };
	uint64_t end = text->address + text->size;

	for (size_t i = 0; i < targets->starts.count && !interrupt_requested(); i++) {
		uint64_t start = targets->starts.items[i];

		if (start < stretch.from || start >= end)
			continue;
		stretch.to = start;
		sweep(targets, text->bytes + (stretch.from - text->address), stretch);
		stretch = (struct stretch){ .from = start,
					    .is_function = has_bounds(targets->symtab, start) };
	}
	stretch.to = end;
	if (interrupt_requested())
		return; /* branch_targets_scan fails */
	sweep(targets, text->bytes + (stretch.from - text->address), stretch);
}

static struct error *add_ranges(struct branch_targets *targets)
{
	const struct symtab *symtab = targets->symtab;
	uint64_t at = symtab_low(symtab) / PAGE * PAGE;

	while (at < symtab_high(symtab)) {
		const struct text_range *text = symtab_text(symtab, at);

		if (!text) {
			at += PAGE;
			continue;
		}
		assert(at - text->address < text->size); /* the search gets on */
		uint64_t room = text->size / 8 + 1;
		uint8_t *bits = calloc(3, room);
		if (!bits || !vec_push(&targets->ranges,
				       (struct text_bits){ text->address, text->size, bits,
							   bits + room, bits + 2 * room })) {
			free(bits);
			return error_new(ERROR_FAILED, "out of memory");
		}
		at = (text->address + text->size + PAGE - 1) / PAGE * PAGE;
	}
	return NULL;
}

static void cleanup_branch_targets(struct branch_targets **targets)
{
	branch_targets_free(*targets);
}

static void note_sequence(void *context, uint64_t start, uint64_t end, uint64_t abort)
{
	struct branch_targets *targets = context;

	mark(targets, abort);
	if (!vec_push(&targets->sequences, (struct sequence){ start, end }) ||
	    !vec_push(&targets->sequences, (struct sequence){ abort - sizeof(uint32_t), abort }))
		targets->failed = true;
}

/* A long stretch without unwind tables comes with a runtime of its own, which may enter it anywhere
 * (unwind_coverage.c). */
struct rest {
	struct branch_targets *targets;
	uint64_t from;
};

static void mark_up_to(void *context, uint64_t start, uint64_t end)
{
	struct rest *rest = context;

	if (find_range(rest->targets, rest->from) == find_range(rest->targets, start))
		mark_all(rest->targets, rest->from, start);
	rest->from = end;
}

static void mark_uncovered(struct branch_targets *targets)
{
	struct rest rest = { .targets = targets };

	symtab_each_unwind_covered(targets->symtab, SYM_UNCOVERED_MIN, mark_up_to, &rest);
}

/* Goroutines are parked at any instruction, but not there. */
static bool note_checks(struct branch_targets *targets)
{
	struct go_prologue prologue;

	for (size_t i = 0; i < targets->starts.count; i++) {
		uint64_t start = targets->starts.items[i];

		if (go_prologue_read(targets->symtab, start, &prologue) && !prologue.frame &&
		    !vec_push(&targets->checks, start + prologue.branch))
			return false;
	}
	return true;
}

static bool is_check(const struct branch_targets *targets, uint64_t address)
{
	size_t n = sorted_count(targets->checks.count, i, targets->checks.items[i] < address);

	return n < targets->checks.count && targets->checks.items[n] == address;
}

struct error *branch_targets_scan(const struct symtab *symtab, struct branch_targets **ret_targets)
{
	_cleanup_(cleanup_branch_targets) struct branch_targets *targets =
		calloc(1, sizeof(*targets));

	if (!targets)
		return error_new(ERROR_FAILED, "out of memory");
	targets->symtab = symtab;
	targets->is_fixed = symtab_low(symtab) >= LOWEST_FIXED;
	targets->calls_are_read = reads_calls(symtab);
	struct error *error = add_ranges(targets);
	if (error)
		return error;
	symtab_each_function_start(symtab, note_start, targets);
	if (targets->starts.count)
		qsort(targets->starts.items, targets->starts.count, sizeof(uint64_t), by_value);
	for (size_t i = 0; i < targets->ranges.count; i++)
		sweep_range(targets, symtab_text(symtab, targets->ranges.items[i].address));
	error = interrupt_check();
	if (error)
		return error;
	symtab_each_rseq(symtab, note_sequence, targets);
	if (targets->failed)
		return error_new(ERROR_FAILED, "out of memory");
	if (targets->reads.count)
		qsort(targets->reads.items, targets->reads.count, sizeof(uint64_t), by_value);
	mark_tables(targets);
	symtab_each_pointer(symtab, mark_word, targets);
	if (!symtab_is_go(symtab)) /* else every address counts anyway */
		mark_uncovered(targets);
	symtab_each_landing_pad(symtab, mark_pointer, targets);
	targets->everything = symtab_is_go(symtab);
	if (targets->everything && !note_checks(targets))
		return error_new(ERROR_FAILED, "out of memory");
	targets->symtab = NULL; /* the result may outlive it */
	*ret_targets = take_ptr(&targets);
	return NULL;
}

void branch_targets_free(struct branch_targets *targets)
{
	if (!targets)
		return;
	for (size_t i = 0; i < targets->ranges.count; i++)
		free(targets->ranges.items[i].bits);
	vec_free(&targets->ranges);
	vec_free(&targets->taken);
	vec_free(&targets->sequences);
	vec_free(&targets->starts);
	vec_free(&targets->reads);
	vec_free(&targets->checks);
	free(targets);
}

static bool has_bit(const struct branch_targets *targets, uint64_t address)
{
	const struct text_bits *range = find_range(targets, address);
	uint64_t at = range ? address - range->address : 0;

	return !range || (range->bits[at / 8] >> (at % 8) & 1);
}

bool branch_targets_at(const struct branch_targets *targets, uint64_t address)
{
	return has_bit(targets, address) || (targets->everything && !is_check(targets, address));
}

bool branch_targets_has_goroutines(const struct branch_targets *targets)
{
	return targets->everything;
}

bool branch_targets_is_parking(const struct branch_targets *targets, uint64_t address)
{
	return targets && targets->everything && !has_bit(targets, address);
}

bool branch_targets_is_read(const struct branch_targets *targets, uint64_t start, uint64_t end)
{
	size_t n = sorted_count(targets->reads.count, i, targets->reads.items[i] < start);

	return n < targets->reads.count && targets->reads.items[n] < end;
}

bool branch_targets_inside(const struct branch_targets *targets, uint64_t start, uint64_t end)
{
	const struct text_bits *range = find_range(targets, start);

	for (uint64_t i = start + 1; i < end && range; i++) {
		uint64_t at = i - range->address;

		if (at < range->size && (range->exact[at / 8] >> (at % 8) & 1))
			return true;
	}
	return false;
}

bool branch_targets_is_apart(const struct branch_targets *targets, uint64_t address)
{
	const struct text_bits *range = find_range(targets, address);
	uint64_t at = range ? address - range->address : 0;

	return !range || targets->everything || (range->apart[at / 8] >> (at % 8) & 1);
}

uint64_t branch_targets_next_start(const struct branch_targets *targets, uint64_t address)
{
	const struct text_bits *range = find_range(targets, address);
	uint64_t end = range ? range->address + range->size : address;
	size_t n = sorted_count(targets->starts.count, i, targets->starts.items[i] <= address);

	return n < targets->starts.count && targets->starts.items[n] < end ?
		       targets->starts.items[n] :
		       end;
}

bool branch_targets_is_sequence(const struct branch_targets *targets, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < targets->sequences.count; i++) {
		if (start < targets->sequences.items[i].end &&
		    end > targets->sequences.items[i].start)
			return true;
	}
	return false;
}
