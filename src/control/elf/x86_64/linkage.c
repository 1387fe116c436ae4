/*
 * linkage.c - where entries of a procedure linkage table lead.
 *
 * Linkers write entries of several forms, but each jumps through one word of memory, in which the
 * loader stores the address of a function.
 */
#include <string.h>

#include "control/elf/symtab_state.h"

#define ENTRY_SIZE 16u
#define JUMP_LENGTH 6u /* jmp [rip + x] */

const struct bound_function *symtab_linked(const struct symtab *symtab, uint64_t address)
{
	const struct text_range *text = symtab_text(symtab, address);
	uint64_t left = text ? text->address + text->size - address : 0;
	const uint8_t *entry = text ? text->bytes + (address - text->address) : NULL;

	for (uint64_t i = 0; i + JUMP_LENGTH <= (left < ENTRY_SIZE ? left : ENTRY_SIZE); i++) {
		int32_t distance;

		if (entry[i] != 0xff || entry[i + 1] != 0x25)
			continue;
		memcpy(&distance, entry + i + 2, sizeof(distance));
		return symtab_bound(symtab,
				    address + i + JUMP_LENGTH + (uint64_t)(int64_t)distance);
	}
	return NULL;
}
