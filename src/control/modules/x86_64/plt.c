/*
 * plt.c - which function each entry of a procedure linkage table leads to.
 *
 * Linkers write tables of several forms (.plt, .plt.sec, .plt.got; with endbr64, with bnd), but
 * each entry jumps through one word of memory, and a relocation names the function whose address
 * the loader stores there. So this file looks for the jumps, not for the forms.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/modules/unnamed_functions.h"
#include "control/elf/symtab_state.h"

#define ENTRY_SIZE 16u
#define JUMP_SIZE 6u
#define NAME_ROOM 1024

/* A word in which the loader stores a function's address. */
struct got_word {
	uint64_t address;
	const char *name;
};

struct got {
	struct got_word *items;
	size_t count, room;
};

static int compare_words(const void *a, const void *b)
{
	const struct got_word *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* A name of the dynamic symbol table; NULL: it doesn't end inside the table. */
static const char *dynamic_name(struct bytes symbols, struct bytes strings, uint64_t index)
{
	Elf64_Sym symbol;

	if (index >= symbols.size / sizeof(symbol))
		return NULL;
	memcpy(&symbol, symbols.at + index * sizeof(symbol), sizeof(symbol));
	if (symbol.st_name >= strings.size ||
	    !memchr(strings.at + symbol.st_name, 0, strings.size - symbol.st_name))
		return NULL;
	return (const char *)strings.at + symbol.st_name;
}

static bool is_printable(const char *name)
{
	size_t length = 0;

	for (; name[length]; length++) {
		if ((unsigned char)name[length] < ' ' || name[length] == 0x7f || length > NAME_ROOM)
			return false;
	}
	return length > 0;
}

static bool read_got(const struct elf_image *image, struct bytes table, struct got *got)
{
	const struct dynamic *d = &image->dynamic;
	struct bytes symbols = elf_image_bytes(image, d->symtab, UINT64_MAX);
	struct bytes strings = elf_image_bytes(image, d->strtab, d->strsz);
	Elf64_Rela rela;

	for (size_t at = 0; at + sizeof(rela) <= table.size; at += sizeof(rela)) {
		uint32_t type;
		const char *name;

		memcpy(&rela, table.at + at, sizeof(rela));
		type = ELF64_R_TYPE(rela.r_info);
		if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
			continue;
		name = dynamic_name(symbols, strings, ELF64_R_SYM(rela.r_info));
		if (name && is_printable(name) &&
		    !vec_push(got, (struct got_word){ rela.r_offset, name }))
			return false;
	}
	return true;
}

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

static bool add_entries(const struct elf_image *image, const Elf64_Shdr *section,
			const struct got *got, struct unnamed_functions *unnamed)
{
	/* Entries of .plt.got are 8 bytes long if they hold only the jump. */
	uint64_t step = section->sh_entsize == 8 ? 8 : ENTRY_SIZE;
	struct bytes code = elf_image_bytes(image, section->sh_addr, section->sh_size);
	char name[NAME_ROOM + 8];

	for (uint64_t at = 0; at + step <= code.size; at += step) {
		uint8_t entry[ENTRY_SIZE] = { 0 };
		struct got_word key = { 0 }, *word;

		memcpy(entry, code.at + at, step);
		if (!jumps_through(entry, section->sh_addr + at, &key.address))
			continue;
		word = bsearch(&key, got->items, got->count, sizeof(key), compare_words);
		if (!word)
			continue;
		snprintf(name, sizeof(name), "%s@plt", word->name);
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
	const struct dynamic *d = &image->dynamic;
	struct got got = { 0 };
	bool done = read_got(image, elf_image_bytes(image, d->jmprel, d->jmprel ? d->pltrelsz : 0),
			     &got) &&
		    read_got(image, elf_image_bytes(image, d->rela, d->rela ? d->relasz : 0), &got);

	if (got.count)
		qsort(got.items, got.count, sizeof(*got.items), compare_words);
	for (size_t i = 0; done && got.count && i < sizeof(sections) / sizeof(sections[0]); i++) {
		const Elf64_Shdr *section = elf_image_section(image, sections[i]);

		if (section && elf_image_is_executable(image, section->sh_addr))
			done = add_entries(image, section, &got, unnamed);
	}
	vec_free(&got);
	return done ? NULL : error_errno(ENOMEM, "%s", image->path);
}
