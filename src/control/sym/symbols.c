/*
 * Symbols come from .symtab and .dynsym, found by the section headers, or, where a file has none,
 * by the dynamic table. A name may be there twice; it is kept once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "symtab.h"

#define SYMBOLS_MAX 4000000u
#define STRINGS_SIZE_MAX (512u << 20)
#define VERSION_HIDDEN 0x8000

/* A symbol table with its strings, copied from the file. */
struct table {
	const Elf64_Sym *entries;
	size_t count;
	char *strings; /* cut up in place: versions become ends of strings */
	size_t strings_size;
	uint64_t budget; /* how many bytes of names may still be looked at (hostile files) */
	const uint16_t *versions; /* one an entry; NULL: none */
	enum symbol_source source;
};

/*
 * The name, its version cut off; NULL: none that is fit to be printed. "foo@V" is an old version of
 * foo, "foo@@V" the one that programs are linked with.
 */
static const char *table_name(struct table *table, uint32_t offset, bool *ret_old)
{
	char *name, *end;

	if (offset >= table->strings_size)
		return NULL;
	name = table->strings + offset;
	for (end = name; *end && *end != '@'; end++) {
		if ((unsigned char)*end < ' ' || *end == 0x7f || table->budget == 0)
			return NULL;
		table->budget--;
	}
	if (end == name)
		return NULL;
	*ret_old = end[0] == '@' && end[1] != '@' && end[1] != '\0';
	return name;
}

static bool symbol_kind_of(const struct symtab *symtab, const Elf64_Sym *entry,
			   enum symbol_kind *ret_kind)
{
	unsigned type = ELF64_ST_TYPE(entry->st_info);
	bool code = image_is_executable(&symtab->image, entry->st_value);
	const struct range *fde;

	if (entry->st_shndx == SHN_UNDEF || entry->st_shndx == SHN_ABS ||
	    entry->st_shndx == SHN_COMMON || !image_memory(&symtab->image, entry->st_value))
		return false;
	switch (type) {
	case STT_FUNC:
		*ret_kind = code ? SYMBOL_FUNCTION : SYMBOL_OBJECT;
		return true;
	case STT_GNU_IFUNC:
		*ret_kind = code ? SYMBOL_IFUNC : SYMBOL_OBJECT;
		return true;
	case STT_OBJECT:
		*ret_kind = SYMBOL_OBJECT;
		return true;
	case STT_NOTYPE: /* a function of assembly, if the unwind table has one right there */
		if (!code || ELF64_ST_BIND(entry->st_info) == STB_LOCAL)
			return false;
		fde = ranges_find(symtab_fdes(symtab), entry->st_value);
		*ret_kind = SYMBOL_FUNCTION;
		return fde && fde->start == entry->st_value;
	default:
		return false;
	}
}

static struct error *table_collect(struct symtab *symtab, struct table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const Elf64_Sym *entry = &table->entries[i];
		struct symbol symbol = { .address = entry->st_value,
					 .size = entry->st_size,
					 .source = table->source,
					 .global = ELF64_ST_BIND(entry->st_info) != STB_LOCAL };

		if (!symbol_kind_of(symtab, entry, &symbol.kind))
			continue;
		symbol.name = table_name(table, entry->st_name, &symbol.old_version);
		if (!symbol.name)
			continue;
		if (table->versions && (table->versions[i] & VERSION_HIDDEN))
			symbol.old_version = true;
		if (symtab->symbols.count >= SYMBOLS_MAX)
			return error_new(ERROR_FAILED, "%s has too many symbols",
					 symtab->image.path);
		if (!vec_push(&symtab->symbols, symbol))
			return error_errno(ENOMEM, "%s", symtab->image.path);
	}
	return NULL;
}

/* Ends every string at its version; after all names have been judged, for strings may share their
 * tails. */
static void table_cut_versions(struct table *table)
{
	char *end = table->strings + table->strings_size;

	for (char *at = table->strings; (at = memchr(at, '@', (size_t)(end - at))); at++)
		*at = '\0';
}

/* Takes what was copied; hands the strings over to the symtab. */
static struct error *table_read(struct symtab *symtab, size_t slot, uint8_t *entries, size_t size,
				uint8_t *strings, size_t strings_size, uint8_t *versions,
				size_t versions_size)
{
	struct table table = {
		.entries = (const Elf64_Sym *)entries,
		.count = size / sizeof(Elf64_Sym),
		.strings = (char *)strings,
		.strings_size = strings_size,
		.budget = (uint64_t)strings_size * 4 + 4096,
		.source = slot == 0 ? SOURCE_SYMTAB : SOURCE_DYNSYM,
	};
	struct error *error = NULL;

	if (versions && versions_size / sizeof(uint16_t) >= table.count)
		table.versions = (const uint16_t *)versions;
	if (entries && strings) {
		error = table_collect(symtab, &table);
		table_cut_versions(&table);
	}
	symtab->strings[slot] = (char *)strings;
	free(entries);
	free(versions);
	return error;
}

static uint8_t *copy_section(const struct image *image, size_t index, uint32_t type,
			     size_t *ret_size)
{
	const Elf64_Shdr *s;

	if (index >= image->section_count)
		return NULL;
	s = &image->sections[index];
	if (s->sh_type != type || (s->sh_flags & SHF_COMPRESSED) || s->sh_size > STRINGS_SIZE_MAX)
		return NULL;
	return image_copy_file(image, s->sh_offset, s->sh_size, ret_size);
}

/* The first section of this type, and for .gnu.version the one that belongs to it. */
static struct error *read_section_table(struct symtab *symtab, size_t slot, bool *ret_found)
{
	static const uint32_t types[SYMTAB_STRINGS_MAX] = { SHT_SYMTAB, SHT_DYNSYM };
	const struct image *image = &symtab->image;
	size_t size = 0, strings_size = 0, versions_size = 0;
	uint8_t *entries, *strings, *versions = NULL;
	size_t index = 0;

	while (index < image->section_count && image->sections[index].sh_type != types[slot])
		index++;
	*ret_found = index < image->section_count;
	if (!*ret_found)
		return NULL;
	if (image->sections[index].sh_size / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return error_new(ERROR_FAILED, "%s has too many symbols", image->path);
	entries = copy_section(image, index, types[slot], &size);
	strings = copy_section(image, image->sections[index].sh_link, SHT_STRTAB, &strings_size);
	for (size_t i = 0; i < image->section_count && !versions; i++) {
		if (image->sections[i].sh_link == index)
			versions = copy_section(image, i, SHT_GNU_versym, &versions_size);
	}
	return table_read(symtab, slot, entries, size, strings, strings_size, versions,
			  versions_size);
}

/* The number of dynamic symbols isn't written anywhere; the hash tables imply it. */
static uint64_t count_by_gnu_hash(const struct image *image)
{
	struct {
		uint32_t bucket_count, first, bloom_count, shift;
	} head;
	struct segment *segment = image_segment(image, image->dynamic.gnu_hash);
	uint64_t buckets, chain;
	uint32_t last = 0, word;

	/* word by word, from memory: not by a system call each */
	if (!segment || !image_segment_bytes(image, segment) ||
	    image_read(image, image->dynamic.gnu_hash, &head, sizeof(head)) != sizeof(head))
		return 0;
	buckets = image->dynamic.gnu_hash + sizeof(head) + (uint64_t)head.bloom_count * 8;
	chain = buckets + (uint64_t)head.bucket_count * 4;
	for (uint64_t i = 0; i < head.bucket_count && i < SYMBOLS_MAX; i++) {
		if (image_read(image, buckets + i * 4, &word, 4) != 4)
			return 0;
		last = word > last ? word : last;
	}
	if (last < head.first)
		return head.first;
	for (uint64_t i = last; i < SYMBOLS_MAX; i++) {
		if (image_read(image, chain + (i - head.first) * 4, &word, 4) != 4)
			return 0;
		if (word & 1)
			return i + 1;
	}
	return 0;
}

static struct error *read_dynamic_table(struct symtab *symtab)
{
	const struct image *image = &symtab->image;
	const struct dynamic *d = &image->dynamic;
	size_t size = 0, strings_size = 0, versions_size = 0;
	uint8_t *entries, *strings, *versions = NULL;
	uint64_t count = 0;
	uint32_t chains;

	if (!d->symtab || !d->strtab)
		return NULL;
	if (d->hash && image_read(image, d->hash + 4, &chains, 4) == 4)
		count = chains;
	else if (d->gnu_hash)
		count = count_by_gnu_hash(image);
	if (count == 0 || count > SYMBOLS_MAX)
		return NULL;
	entries = image_copy(image, d->symtab, count * sizeof(Elf64_Sym), &size);
	strings = image_copy(image, d->strtab, d->strsz, &strings_size);
	if (d->versym)
		versions = image_copy(image, d->versym, count * sizeof(uint16_t), &versions_size);
	return table_read(symtab, 1, entries, size, strings, strings_size, versions, versions_size);
}

/* Which of two symbols at one address with one name stays: the first. */
static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;
	int order;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	order = strcmp(x->name, y->name);
	if (order)
		return order;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->old_version != y->old_version)
		return x->old_version - y->old_version;
	if (x->global != y->global)
		return y->global - x->global;
	return (x->source > y->source) - (x->source < y->source);
}

static void sort_symbols(struct symtab *symtab)
{
	struct symbol *items = symtab->symbols.items;
	size_t kept = 0;

	if (symtab->symbols.count == 0)
		return;
	qsort(items, symtab->symbols.count, sizeof(*items), compare_symbols);
	for (size_t i = 1; i < symtab->symbols.count; i++) {
		if (items[i].address != items[kept].address ||
		    strcmp(items[i].name, items[kept].name) != 0)
			items[++kept] = items[i];
	}
	symtab->symbols.count = kept + 1;
}

/* A program whose main has no symbol gets one from its start code. */
static struct error *add_main(struct symtab *symtab)
{
	struct symbol symbol = { .name = "main", .kind = SYMBOL_FUNCTION, .source = SOURCE_ENTRY };

	for (size_t i = 0; i < symtab->symbols.count; i++) {
		if (symtab->symbols.items[i].kind == SYMBOL_FUNCTION &&
		    strcmp(symtab->symbols.items[i].name, "main") == 0)
			return NULL;
	}
	if (!entry_find_main(symtab, &symbol.address))
		return NULL;
	if (!vec_push(&symtab->symbols, symbol))
		return error_errno(ENOMEM, "%s", symtab->image.path);
	return NULL;
}

struct error *symbols_read(struct symtab *symtab)
{
	bool found = false;
	struct error *error = read_section_table(symtab, 0, &found);

	if (!error)
		error = read_section_table(symtab, 1, &found);
	if (!error && !found)
		error = read_dynamic_table(symtab);
	if (!error)
		error = add_main(symtab);
	if (!error)
		sort_symbols(symtab);
	return error;
}

static bool is_code(const struct symbol *symbol)
{
	return symbol->kind != SYMBOL_OBJECT;
}

static struct error *read_code_sections(const struct image *image, struct ranges *ret_ranges)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const Elf64_Shdr *s = &image->sections[i];

		if (s->sh_type != SHT_PROGBITS || !(s->sh_flags & SHF_EXECINSTR) || s->sh_addr == 0)
			continue;
		if (!vec_push(ret_ranges, (struct range){ s->sh_addr, s->sh_addr + s->sh_size }))
			return error_errno(ENOMEM, "%s", image->path);
	}
	ranges_sort(ret_ranges);
	return NULL;
}

/* The end of a function that doesn't say its size; `next` is where the next symbol starts. */
static uint64_t guess_end(const struct symtab *symtab, const struct ranges *sections,
			  const struct symbol *symbol, uint64_t next)
{
	const struct range *fde = ranges_find(symtab_fdes(symtab), symbol->address);
	const struct range *section = ranges_find(sections, symbol->address);
	uint64_t end = next;

	if (fde && (fde->start == symbol->address || fde->end < end))
		return fde->end;
	if (section && section->end < end)
		end = section->end;
	return end;
}

static void measure_symbol(struct symtab *symtab, const struct ranges *sections,
			   struct symbol *symbol, uint64_t next)
{
	const struct segment *segment = image_segment(&symtab->image, symbol->address);
	uint64_t room = segment->file_size - (symbol->address - segment->address);

	if (symbol->size == 0)
		symbol->size = guess_end(symtab, sections, symbol, next) - symbol->address;
	if (symbol->size > room)
		symbol->size = room;
}

struct error *symbols_measure(struct symtab *symtab)
{
	_cleanup_free_ struct range *section_items = NULL;
	struct ranges sections = { 0 };
	struct error *error = read_code_sections(&symtab->image, &sections);
	uint64_t next = UINT64_MAX, here = UINT64_MAX, reach = 0;

	section_items = sections.items;
	if (error)
		return error;
	symtab->reach = calloc(symtab->symbols.count + 1, sizeof(*symtab->reach));
	if (!symtab->reach)
		return error_errno(ENOMEM, "%s", symtab->image.path);
	for (size_t i = symtab->symbols.count; i-- > 0;) {
		struct symbol *symbol = &symtab->symbols.items[i];

		if (!is_code(symbol))
			continue;
		if (symbol->address != here) {
			next = here;
			here = symbol->address;
		}
		measure_symbol(symtab, &sections, symbol, next);
	}
	for (size_t i = 0; i < symtab->symbols.count; i++) {
		const struct symbol *symbol = &symtab->symbols.items[i];

		if (is_code(symbol) && symbol->address + symbol->size > reach)
			reach = symbol->address + symbol->size;
		symtab->reach[i] = reach;
	}
	return NULL;
}
