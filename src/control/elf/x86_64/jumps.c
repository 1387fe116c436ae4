/*
 * jumps.c - direct calls and jumps to the starts of functions, by target.
 */
#include <stdlib.h>
#include <string.h>

#include "control/elf/symtab_state.h"
#include "shared/sorted.h"

#define NEAR_LENGTH 5u
#define SHORT_LENGTH 2u

/* The target of a call or jump at these bytes; false: something else. */
static bool find_target(const uint8_t *bytes, size_t size, uint64_t pc, uint64_t *ret_target)
{
	int32_t distance;

	if (size >= SHORT_LENGTH && bytes[0] == 0xeb) {
		*ret_target = pc + SHORT_LENGTH + (uint64_t)(int64_t)(int8_t)bytes[1];
		return true;
	}
	if (size < NEAR_LENGTH || (bytes[0] != 0xe8 && bytes[0] != 0xe9))
		return false;
	memcpy(&distance, bytes + 1, sizeof(distance));
	*ret_target = pc + NEAR_LENGTH + (uint64_t)(int64_t)distance;
	return true;
}

/* Stripped files have functions in the unwind table only. */
static bool is_function(const struct symtab *symtab, uint64_t address)
{
	size_t n = sorted_count(symtab->symbols.count, i,
				symtab->symbols.items[i].address <= address);
	uint64_t start, end;

	return (n && symtab->symbols.items[n - 1].address == address) ||
	       (symtab_fde(symtab, address, &start, &end) && start == address);
}

static int compare_jumps(const void *left, const void *right)
{
	const struct symtab_jump *a = left, *b = right;

	if (a->to != b->to)
		return a->to < b->to ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

/* Out of memory: some are missing. */
static void read_text(struct symtab *symtab, const struct text_range *text)
{
	uint64_t to;

	for (size_t i = 0; i < text->size; i++) {
		if (!find_target(text->bytes + i, text->size - i, text->address + i, &to) ||
		    /* most bytes that look like a jump lead nowhere */
		    (to - text->address >= text->size && !symtab_text(symtab, to)) ||
		    !is_function(symtab, to))
			continue;
		struct symtab_jump jump = { .to = to, .from = text->address + i };
		if (!vec_push(&symtab->jumps, jump))
			return;
	}
}

static void read_all(struct symtab *symtab)
{
	for (size_t i = 0; i < symtab->image.segment_count; i++) {
		const struct text_range *text =
			symtab_text(symtab, symtab->image.segments[i].address);

		if (text)
			read_text(symtab, text);
	}
	if (symtab->jumps.count)
		qsort(symtab->jumps.items, symtab->jumps.count, sizeof(*symtab->jumps.items),
		      compare_jumps);
	symtab->jumps_read = true;
}

const struct symtab_jump *symtab_jumps_to(const struct symtab *symtab, uint64_t function,
					  size_t *ret_count)
{
	if (!symtab->jumps_read)
		read_all(symtab_lazy(symtab));
	size_t first = sorted_count(symtab->jumps.count, i, symtab->jumps.items[i].to < function);
	size_t end = sorted_count(symtab->jumps.count, i, symtab->jumps.items[i].to <= function);
	*ret_count = end - first;
	return symtab->jumps.items + first;
}
