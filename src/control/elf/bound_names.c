/*
 * bound_names.c - the words of a file in which the loader stores addresses of functions, each with
 * the function's name: what entries of the procedure linkage table jump through.
 */
#include <stdlib.h>
#include <string.h>

#include "symtab_state.h"

#define NAME_MAX_LENGTH 1024
#define VERSION_MASK 0x7fffu
#define VERSIONS_MAX 2048u /* of all needed files together; functions of others have none */
#define RECORDS_MAX 16384u /* records of a hostile file may lead in circles */

static int compare_words(const void *a, const void *b)
{
	const struct bound_name *x = a, *y = b;

	return (x->word > y->word) - (x->word < y->word);
}

/* The parts of the file that name a function of another. */
struct finder {
	struct symtab *symtab;
	struct bytes symbols, strings, versions, needs;
	const char *libraries[VERSIONS_MAX]; /* by number of version */
	unsigned budget; /* records that may still be read */
};

/* A string of the dynamic table; NULL: it doesn't end inside the table. */
static const char *string_at(struct bytes strings, uint64_t at)
{
	if (at >= strings.size || !memchr(strings.at + at, 0, strings.size - at))
		return NULL;
	return (const char *)strings.at + at;
}

static const char *name_of(const struct finder *finder, uint64_t index)
{
	Elf64_Sym symbol;

	if (index >= finder->symbols.size / sizeof(symbol))
		return NULL;
	memcpy(&symbol, finder->symbols.at + index * sizeof(symbol), sizeof(symbol));
	return string_at(finder->strings, symbol.st_name);
}

/* Copies a record of the table of needed versions; false: it isn't inside the table. */
static bool read_need(const struct finder *finder, uint64_t at, void *to, size_t size)
{
	if (at > finder->needs.size || finder->needs.size - at < size)
		return false;
	memcpy(to, finder->needs.at + at, size);
	return true;
}

/* Notes the versions of one needed file. */
static void read_versions(struct finder *finder, uint64_t at, const char *file)
{
	Elf64_Vernaux aux;

	while (finder->budget && read_need(finder, at, &aux, sizeof(aux))) {
		uint16_t version = aux.vna_other & VERSION_MASK;

		finder->budget--;
		if (version < VERSIONS_MAX)
			finder->libraries[version] = file;
		if (!aux.vna_next)
			return;
		at += aux.vna_next;
	}
}

static void read_needs(struct finder *finder)
{
	Elf64_Verneed need;
	uint64_t at = 0;

	while (finder->budget && read_need(finder, at, &need, sizeof(need))) {
		finder->budget--;
		read_versions(finder, at + need.vn_aux, string_at(finder->strings, need.vn_file));
		if (!need.vn_next)
			return;
		at += need.vn_next;
	}
}

/* The file that the symbol's version belongs to; NULL: it has no version. */
static const char *library_of(const struct finder *finder, uint64_t index)
{
	uint16_t version;

	if (index >= finder->versions.size / sizeof(version))
		return NULL;
	memcpy(&version, finder->versions.at + index * sizeof(version), sizeof(version));
	version &= VERSION_MASK;
	return version < VERSIONS_MAX ? finder->libraries[version] : NULL;
}

static bool is_printable(const char *name)
{
	size_t length = 0;

	for (; name[length]; length++) {
		if ((unsigned char)name[length] < ' ' || name[length] == 0x7f ||
		    length > NAME_MAX_LENGTH)
			return false;
	}
	return length > 0;
}

static void add_word(void *context, const Elf64_Rela *rela)
{
	struct finder *finder = context;
	uint32_t type = ELF64_R_TYPE(rela->r_info);
	struct bound_name one = { .word = rela->r_offset };

	if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
		return;
	one.function.name = name_of(finder, ELF64_R_SYM(rela->r_info));
	if (!one.function.name || !is_printable(one.function.name))
		return;
	one.function.library = library_of(finder, ELF64_R_SYM(rela->r_info));
	(void)vec_push(&finder->symtab->bound, one); /* out of memory: the word isn't known */
}

static void read_all(struct symtab *symtab)
{
	const struct dynamic *d = &symtab->image.dynamic;
	struct finder finder = {
		.symtab = symtab,
		.symbols = elf_image_bytes(&symtab->image, d->symtab, UINT64_MAX),
		.strings = elf_image_bytes(&symtab->image, d->strtab, d->strsz),
		.budget = RECORDS_MAX,
	};

	if (d->versym)
		finder.versions = elf_image_bytes(&symtab->image, d->versym, UINT64_MAX);
	if (d->verneed)
		finder.needs = elf_image_bytes(&symtab->image, d->verneed, UINT64_MAX);
	read_needs(&finder);
	relocs_each(symtab, add_word, &finder);
	if (symtab->bound.count)
		qsort(symtab->bound.items, symtab->bound.count, sizeof(*symtab->bound.items),
		      compare_words);
	symtab->bound_read = true;
}

bool symtab_binds(const struct symtab *symtab, const char *name)
{
	if (!symtab->bound_read)
		read_all(symtab_lazy(symtab));
	for (size_t i = 0; i < symtab->bound.count; i++) {
		if (strcmp(symtab->bound.items[i].function.name, name) == 0)
			return true;
	}
	return false;
}

const struct bound_function *symtab_bound(const struct symtab *symtab, uint64_t word)
{
	struct bound_name key = { .word = word }, *found;

	if (!symtab->bound_read)
		read_all(symtab_lazy(symtab));
	if (!symtab->bound.count)
		return NULL;
	found = bsearch(&key, symtab->bound.items, symtab->bound.count, sizeof(key), compare_words);
	return found ? &found->function : NULL;
}
