/*
 * symbols.c - reads symbols from .symtab and .dynsym, found by the section headers, or, in a file
 * without those, by the dynamic table. A name that is in both tables is kept once.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "go_functions.h"
#include "symtab_state.h"

#define SYMBOLS_MAX 4000000u
#define VERSION_HIDDEN 0x8000

/* A symbol table with its strings and versions. */
struct table {
	struct bytes entries, strings, versions;
	uint64_t budget; /* bytes of names still to be read (hostile files) */
	enum symbol_source source;
	bool out_of_memory;
};

/* A copy of the first n bytes of a name: without its version. */
static const char *cut_name(struct symtab *symtab, struct table *table, const char *name, size_t n)
{
	_cleanup_free_ char *copy = strndup(name, n);

	if (!copy || !vec_push(&symtab->cut_names, copy)) {
		table->out_of_memory = true;
		return NULL;
	}
	return take_ptr(&copy);
}

/*
 * The name without its version; NULL: not fit to be printed. "foo@V" is an old version of foo,
 * "foo@@V" the version that new programs are linked with.
 */
static const char *table_name(struct symtab *symtab, struct table *table, uint32_t offset,
			      bool *ret_old)
{
	const char *name = (const char *)table->strings.at;
	size_t room = table->strings.size, n = 0;

	if (offset >= room)
		return NULL;
	name += offset;
	room -= offset;
	for (; n < room && name[n] && name[n] != '@'; n++) {
		if ((unsigned char)name[n] < ' ' || name[n] == 0x7f || table->budget == 0)
			return NULL;
		table->budget--;
	}
	if (n == 0 || n == room)
		return NULL;
	if (name[n] == '\0')
		return name;
	*ret_old = room - n >= 2 && name[n + 1] != '@' && name[n + 1] != '\0';
	return cut_name(symtab, table, name, n);
}

static bool symbol_kind_of(const struct symtab *symtab, const Elf64_Sym *entry,
			   enum symbol_kind *ret_kind)
{
	unsigned type = ELF64_ST_TYPE(entry->st_info);
	bool code = elf_image_is_executable(&symtab->image, entry->st_value);
	const struct range *fde;

	if (entry->st_shndx == SHN_UNDEF || entry->st_shndx == SHN_ABS ||
	    entry->st_shndx == SHN_COMMON || !elf_image_memory(&symtab->image, entry->st_value))
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
	case STT_NOTYPE: /* a function of assembly, if an FDE starts there */
		if (!code || ELF64_ST_BIND(entry->st_info) == STB_LOCAL)
			return false;
		fde = ranges_find(symtab_fdes(symtab), entry->st_value);
		*ret_kind = SYMBOL_FUNCTION;
		return fde && fde->start == entry->st_value;
	default:
		return false;
	}
}

static bool is_old_version(const struct table *table, size_t index)
{
	uint16_t version;

	if (table->versions.size / sizeof(version) <= index)
		return false;
	memcpy(&version, table->versions.at + index * sizeof(version), sizeof(version));
	return version & VERSION_HIDDEN;
}

static struct error *table_collect(struct symtab *symtab, struct table *table)
{
	size_t count = table->entries.size / sizeof(Elf64_Sym);

	table->budget = (uint64_t)table->strings.size * 4 + 4096;
	for (size_t i = 0; i < count && !table->out_of_memory; i++) {
		struct symbol symbol = { .source = table->source };
		Elf64_Sym entry;

		memcpy(&entry, table->entries.at + i * sizeof(entry), sizeof(entry));
		if (!symbol_kind_of(symtab, &entry, &symbol.kind))
			continue;
		symbol.address = entry.st_value;
		symbol.size = entry.st_size;
		symbol.global = ELF64_ST_BIND(entry.st_info) != STB_LOCAL;
		symbol.name = table_name(symtab, table, entry.st_name, &symbol.old_version);
		if (!symbol.name)
			continue;
		if (is_old_version(table, i))
			symbol.old_version = true;
		if (symtab->symbols.count >= SYMBOLS_MAX)
			return error_new(ERROR_FAILED, "%s: too many symbols",
					 symtab->image.path);
		table->out_of_memory = !vec_push(&symtab->symbols, symbol);
	}
	return table->out_of_memory ? error_errno(ENOMEM, "%s", symtab->image.path) : NULL;
}

/* The first section of this type from `section` on. */
static Elf_Scn *next_of_type(Elf *elf, Elf_Scn *section, uint32_t type)
{
	while ((section = elf_nextscn(elf, section))) {
		const Elf64_Shdr *h = elf64_getshdr(section);

		if (h && h->sh_type == type)
			return section;
	}
	return NULL;
}

/* The first section of this type, its strings, and the .gnu.version that belongs to it. */
static struct error *read_section_table(struct symtab *symtab, uint32_t type, bool *ret_found)
{
	Elf *elf = symtab->image.elf;
	Elf_Scn *section = next_of_type(elf, NULL, type), *versions = NULL;
	struct table table = { .source = type == SHT_SYMTAB ? SOURCE_SYMTAB : SOURCE_DYNSYM };

	*ret_found = section != NULL;
	if (!section)
		return NULL;
	if (elf64_getshdr(section)->sh_size / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return error_new(ERROR_FAILED, "%s: too many symbols", symtab->image.path);
	table.entries = elf_image_section_bytes(section, type);
	table.strings = elf_image_section_bytes(elf_getscn(elf, elf64_getshdr(section)->sh_link),
						SHT_STRTAB);
	while (!table.versions.size && (versions = next_of_type(elf, versions, SHT_GNU_versym))) {
		if (elf64_getshdr(versions)->sh_link == elf_ndxscn(section))
			table.versions = elf_image_section_bytes(versions, SHT_GNU_versym);
	}
	return table_collect(symtab, &table);
}

/* A word of a hash table; 0 past its end. */
static uint32_t word_at(struct bytes hash, uint64_t offset)
{
	uint32_t word = 0;

	if (offset < hash.size && hash.size - offset >= sizeof(word))
		memcpy(&word, hash.at + offset, sizeof(word));
	return word;
}

/* Only the section header gives the number of dynamic symbols, and libelf has no other source; but
 * the last chain of the hash table ends with the last symbol. */
static uint64_t count_by_gnu_hash(struct bytes hash)
{
	uint64_t first = word_at(hash, 4), last = 0;
	uint64_t buckets = 16 + (uint64_t)word_at(hash, 8) * 8;
	uint64_t chain = buckets + (uint64_t)word_at(hash, 0) * 4;

	for (uint64_t at = buckets; at < chain && at < hash.size; at += 4) {
		uint32_t bucket = word_at(hash, at);

		last = bucket > last ? bucket : last;
	}
	if (last < first)
		return first;
	for (uint64_t at = chain + (last - first) * 4; at < hash.size; at += 4) {
		if (word_at(hash, at) & 1)
			return first + (at - chain) / 4 + 1;
	}
	return 0;
}

static struct error *read_dynamic_table(struct symtab *symtab)
{
	const struct elf_image *image = &symtab->image;
	const struct dynamic *d = &image->dynamic;
	struct table table = { .source = SOURCE_DYNSYM };
	uint64_t count = 0;

	if (!d->symtab || !d->strtab)
		return NULL;
	if (d->hash)
		count = word_at(elf_image_bytes(image, d->hash, 8), 4);
	else if (d->gnu_hash)
		count = count_by_gnu_hash(elf_image_bytes(image, d->gnu_hash, UINT64_MAX));
	if (count > SYMBOLS_MAX)
		return NULL;
	table.entries = elf_image_bytes(image, d->symtab, count * sizeof(Elf64_Sym));
	table.strings = elf_image_bytes(image, d->strtab, d->strsz);
	if (d->versym)
		table.versions = elf_image_bytes(image, d->versym, count * sizeof(uint16_t));
	return table_collect(symtab, &table);
}

/* Of two symbols with one address and one name, sort_symbols keeps the first. */
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
	struct error *error = read_section_table(symtab, SHT_SYMTAB, &found);

	if (!error)
		error = read_section_table(symtab, SHT_DYNSYM, &found);
	if (!error && !found)
		error = read_dynamic_table(symtab);
	if (!error && symtab_is_stripped(symtab))
		error = go_functions_add(symtab);
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

static struct error *read_code_sections(const struct elf_image *image, struct ranges *ret_ranges)
{
	Elf_Scn *section = NULL;

	while ((section = next_of_type(image->elf, section, SHT_PROGBITS))) {
		const Elf64_Shdr *h = elf64_getshdr(section);

		if (!(h->sh_flags & SHF_EXECINSTR) || h->sh_addr == 0)
			continue;
		if (!vec_push(ret_ranges, (struct range){ h->sh_addr, h->sh_addr + h->sh_size }))
			return error_errno(ENOMEM, "%s", image->path);
	}
	ranges_sort(ret_ranges);
	return NULL;
}

/* The end of a function whose symbol has no size; `next` is the start of the next symbol. */
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
	const struct segment *segment = elf_image_segment(&symtab->image, symbol->address);

	assert(segment); /* I4 */
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
