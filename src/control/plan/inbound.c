/*
 * inbound.c
 *
 * A linear sweep over the text, from each range's start, in step again at every function symbol.
 * x86 code falls back into step within a few instructions when data lies between functions; what
 * was decoded out of step only adds bits.
 *
 * Jump tables, as compilers write them into read-only data: 32-bit distances from the table's own
 * start, which the code takes with lea. So each address of data that is taken is read as such a table,
 * for as long as its entries lead into the text, up to the next address that is taken (tables lie side by
 * side, and entries of the next one mean nothing here). What isn't a table ends at once or adds bits.
 */
#include "inbound.h"

#include <stdlib.h>

#include "../base/cleanup.h"
#include "../code/decode.h"

#define PAGE 4096

struct text_bits {
	uint64_t address, size;
	uint8_t *bits;
};

struct inbound {
	const struct symtab *symtab;
	VEC(struct text_bits) ranges;
	VEC(uint64_t) taken; /* addresses of data */
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

static void mark(struct inbound *inbound, uint64_t address)
{
	struct text_bits *range = find_range(inbound, address);
	uint64_t at = range ? address - range->address : 0;

	if (range)
		range->bits[at / 8] |= (uint8_t)(1u << (at % 8));
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
		mark(inbound, table + (uint64_t)(int64_t)entry);
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

	qsort(taken, count, sizeof(*taken), by_value);
	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && taken[next] == taken[i]; next++)
			;
		mark_table(inbound, taken[i], next < count ? taken[next] : symtab_high(inbound->symtab));
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

static void sweep(struct inbound *inbound, const uint8_t *bytes, uint64_t from, uint64_t to)
{
	struct insn insn;

	for (uint64_t at = from; at < to;) {
		const uint8_t *here = bytes + (at - from);

		if (!decode_quick(here, to - at, taddr_of(at), &insn)) {
			at++;
			continue;
		}
		if (insn.has_target)
			mark(inbound, insn.target.v);
		if (insn.rip_relative)
			mark_taken(inbound, insn.rip_target.v);
		at += insn.length;
	}
}

/* In step at each function symbol: from one to the next. */
static void sweep_range(struct inbound *inbound, const struct text_range *text)
{
	uint64_t from = text->address, end = text->address + text->size;

	for (size_t i = 0; i < symtab_count(inbound->symtab); i++) {
		const struct symbol *symbol = symtab_get(inbound->symtab, i);

		if (symbol->kind == SYMBOL_OBJECT || symbol->address <= from || symbol->address >= end)
			continue;
		sweep(inbound, text->bytes + (from - text->address), from, symbol->address);
		from = symbol->address;
	}
	sweep(inbound, text->bytes + (from - text->address), from, end);
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
		uint8_t *bits = calloc(1, text->size / 8 + 1);
		if (!bits || !vec_push(&inbound->ranges,
				       (struct text_bits){ text->address, text->size, bits })) {
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

struct error *inbound_scan(const struct symtab *symtab, struct inbound **ret_inbound)
{
	_cleanup_(cleanup_inbound) struct inbound *inbound = calloc(1, sizeof(*inbound));

	if (!inbound)
		return error_new(ERROR_FAILED, "out of memory");
	inbound->symtab = symtab;
	struct error *error = add_ranges(inbound);
	if (error)
		return error;
	for (size_t i = 0; i < inbound->ranges.count; i++)
		sweep_range(inbound, symtab_text(symtab, inbound->ranges.items[i].address));
	if (inbound->failed)
		return error_new(ERROR_FAILED, "out of memory");
	mark_tables(inbound);
	symtab_each_pointer(symtab, mark_pointer, inbound);
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
	free(inbound);
}

bool inbound_at(const struct inbound *inbound, uint64_t address)
{
	const struct text_bits *range = find_range(inbound, address);
	uint64_t at = range ? address - range->address : 0;

	return !range || (range->bits[at / 8] >> (at % 8) & 1);
}
