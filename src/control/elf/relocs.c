/*
 * relocs.c - words of data that the loader fills in. A RELATIVE relocation keeps the word's value
 * in its own addend, and the file usually holds zero in its place; a RELR relocation's value is in
 * the file already.
 */
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "symtab_state.h"

#define PIECE_WORDS 2048u

static int compare_relocations(const void *a, const void *b)
{
	const struct relocation *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* A table of relocations of the dynamic table: rela and relasz, or jmprel and pltrelsz. */
static struct bytes find_table(const struct symtab *symtab, uint64_t address, uint64_t size)
{
	return address ? elf_image_bytes(&symtab->image, address, size) : (struct bytes){ 0 };
}

/* The next relocation of a table; false: no more. */
static bool take_relocation(struct bytes *table, Elf64_Rela *ret_rela)
{
	if (table->size < sizeof(*ret_rela))
		return false;
	memcpy(ret_rela, table->at, sizeof(*ret_rela));
	*table = (struct bytes){ table->at + sizeof(*ret_rela), table->size - sizeof(*ret_rela) };
	return true;
}

void relocs_each(const struct symtab *symtab, void (*found)(void *context, const Elf64_Rela *rela),
		 void *context)
{
	const struct dynamic *d = &symtab->image.dynamic;
	struct bytes tables[] = { find_table(symtab, d->rela, d->relasz),
				  find_table(symtab, d->jmprel, d->pltrelsz) };
	Elf64_Rela rela;

	for (size_t i = 0; i < 2; i++) {
		while (take_relocation(&tables[i], &rela))
			found(context, &rela);
	}
}

/* RELATIVE relocations, read on first use. */
static const struct relocations *get_relative(const struct symtab *symtab)
{
	struct relocations *relocations = &symtab_lazy(symtab)->relocations;
	const struct dynamic *d = &symtab->image.dynamic;
	struct bytes table;
	bool sorted = true;
	Elf64_Rela rela;

	if (symtab->relocations_read)
		return relocations;
	symtab_lazy(symtab)->relocations_read = true;
	table = find_table(symtab, d->rela, d->relasz);
	while (take_relocation(&table, &rela)) {
		struct relocation one = { rela.r_offset, (uint64_t)rela.r_addend };

		if (ELF64_R_TYPE(rela.r_info) != R_X86_64_RELATIVE)
			continue;
		if (relocations->count && vec_last(relocations)->address > one.address)
			sorted = false;
		if (!vec_push(relocations, one))
			break;
	}
	if (!sorted)
		qsort(relocations->items, relocations->count, sizeof(*relocations->items),
		      compare_relocations);
	return relocations;
}

/* Index of the first relocation at or after the address. */
static size_t first_from(const struct relocations *relocations, uint64_t address)
{
	return sorted_count(relocations->count, i, relocations->items[i].address < address);
}

/* Puts the relocated words into bytes that were read at an address. */
static void apply(const struct relocations *relocations, uint64_t address, uint8_t *to, size_t n)
{
	for (size_t i = first_from(relocations, address < 7 ? 0 : address - 7);
	     i < relocations->count; i++) {
		const struct relocation *r = &relocations->items[i];
		uint8_t word[8];

		if (r->address >= address + n)
			break;
		memcpy(word, &r->addend, sizeof(word));
		for (size_t k = 0; k < sizeof(word); k++) {
			uint64_t at = r->address + k - address;

			if (at < n)
				to[at] = word[k];
		}
	}
}

bool relocs_read_word(const struct symtab *symtab, uint64_t address, uint64_t *ret_word)
{
	uint8_t bytes[8];

	if (elf_image_read(&symtab->image, address, bytes, sizeof(bytes)) != sizeof(bytes))
		return false;
	apply(get_relative(symtab), address, bytes, sizeof(bytes));
	memcpy(ret_word, bytes, sizeof(bytes));
	return true;
}

size_t symtab_data(const struct symtab *symtab, uint64_t address, void *to, size_t n)
{
	const struct elf_image *image = &symtab->image;
	struct segment *segment = elf_image_segment(image, address);
	uint64_t end;

	if (!segment)
		return 0;
	end = segment->address + segment->file_size;
	if (segment->flags & PF_W) {
		if (address < image->relro_start || address >= image->relro_end)
			return 0;
		end = image->relro_end < end ? image->relro_end : end;
	}
	if (n > end - address)
		n = end - address;
	if (!elf_image_segment_bytes(image, segment))
		return 0;
	memcpy(to, segment->bytes + (address - segment->address), n);
	apply(get_relative(symtab), address, to, n);
	return n;
}

/* ---- pointers to code ------------------------------------------------------------------------ */

struct finder {
	const struct symtab *symtab;
	void (*found)(void *context, uint64_t address);
	void *context;
	uint64_t low, high; /* bounds of all code */
	struct bytes symbols; /* named by relocations */
};

static void offer(const struct finder *finder, uint64_t address)
{
	if (address && address >= finder->low && address < finder->high &&
	    elf_image_is_executable(&finder->symtab->image, address))
		finder->found(finder->context, address);
}

static void offer_relocation(void *context, const Elf64_Rela *rela)
{
	const struct finder *finder = context;
	uint64_t at = ELF64_R_SYM(rela->r_info) * sizeof(Elf64_Sym);
	Elf64_Sym symbol;

	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_RELATIVE:
	case R_X86_64_IRELATIVE:
		offer(finder, (uint64_t)rela->r_addend);
		break;
	case R_X86_64_64:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
		if (at + sizeof(symbol) > finder->symbols.size)
			break;
		memcpy(&symbol, finder->symbols.at + at, sizeof(symbol));
		if (symbol.st_shndx != SHN_UNDEF)
			offer(finder, symbol.st_value + (uint64_t)rela->r_addend);
		break;
	}
}

/* Includes code segments: old linkers put read-only data into them. Reads piece by piece, because
 * the image would keep the whole: libicudata has 31 MB of data. */
static void offer_words(const struct finder *finder, const struct segment *segment)
{
	uint64_t words[PIECE_WORDS], at = segment->address + (-segment->address & 7);
	uint64_t end = segment->address + segment->file_size;

	while (at < end) {
		size_t got = elf_image_read(&finder->symtab->image, at, words, sizeof(words)) /
			     sizeof(words[0]);

		for (size_t i = 0; i < got; i++)
			offer(finder, words[i]);
		if (!got)
			return;
		at += got * sizeof(words[0]);
	}
}

void symtab_each_pointer(const struct symtab *symtab,
			 void (*found)(void *context, uint64_t address), void *context)
{
	struct finder finder = { symtab, found, context, UINT64_MAX, 0, { 0 } };
	const struct elf_image *image = &symtab->image;

	for (size_t i = 0; i < image->segment_count; i++) {
		const struct segment *s = &image->segments[i];

		if (!(s->flags & PF_X))
			continue;
		finder.low = s->address < finder.low ? s->address : finder.low;
		finder.high =
			s->address + s->size > finder.high ? s->address + s->size : finder.high;
	}

	for (size_t i = 0; i < image->segment_count; i++)
		offer_words(&finder, &image->segments[i]);
	finder.symbols = elf_image_bytes(image, image->dynamic.symtab, UINT64_MAX);
	relocs_each(symtab, offer_relocation, &finder);
}
