/*
 * plt.c - which function each entry of a procedure linkage table leads to.
 *
 * Linkers write tables of several forms (.plt, .plt.sec, .plt.got; with endbr64, with bnd), but
 * each entry jumps through one word of memory, and a relocation names the function whose address
 * the loader stores there. So this file looks for the jumps, not for the forms.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/modules/unnamed_functions.h"
#include "control/elf/symtab_state.h"

#define ENTRY_SIZE 16u
#define JUMP_SIZE 6u
#define NAME_ROOM 1024

/* The word that an entry jumps through: jmp [rip + x], after an optional prefix or endbr64. */
static bool jumps_through(const uint8_t *entry, uint64_t address, uint64_t *ret_word)
{
	for (size_t i = 0; i + JUMP_SIZE <= ENTRY_SIZE; i++) {
		int32_t distance;

		if (entry[i] != 0xff || entry[i + 1] != 0x25)
			continue;
		memcpy(&distance, entry + i + 2, sizeof(distance));
		*ret_word = address + i + JUMP_SIZE + (uint64_t)(int64_t)distance;
		return true;
	}
	return false;
}

static bool add_entries(const struct symtab *symtab, const Elf64_Shdr *section,
			struct unnamed_functions *unnamed)
{
	/* Entries of .plt.got are 8 bytes long if they hold only the jump. */
	uint64_t step = section->sh_entsize == 8 ? 8 : ENTRY_SIZE;
	struct bytes code =
		elf_image_bytes(&symtab->image, section->sh_addr, section->sh_size);
	char name[NAME_ROOM + 8];

	for (uint64_t at = 0; at + step <= code.size; at += step) {
		uint8_t entry[ENTRY_SIZE] = { 0 };
		const struct bound_function *function;
		uint64_t word;

		memcpy(entry, code.at + at, step);
		if (!jumps_through(entry, section->sh_addr + at, &word))
			continue;
		function = symtab_bound(symtab, word);
		if (!function)
			continue;
		snprintf(name, sizeof(name), "%s@plt", function->name);
		if (!unnamed_functions_add(unnamed, name, section->sh_addr + at, step, SOURCE_PLT,
					   false))
			return false;
	}
	return true;
}

struct error *plt_read(const struct symtab *symtab, struct unnamed_functions *unnamed)
{
	static const char *const sections[] = { ".plt.sec", ".plt", ".plt.got" };
	const struct elf_image *image = &symtab->image;
	bool done = true;

	for (size_t i = 0; done && i < sizeof(sections) / sizeof(sections[0]); i++) {
		const Elf64_Shdr *section = elf_image_section(image, sections[i]);

		if (section && elf_image_is_executable(image, section->sh_addr))
			done = add_entries(symtab, section, unnamed);
	}
	return done ? NULL : error_errno(ENOMEM, "%s", image->path);
}
