/*
 * locate_ifunc.c - functions whose implementation is chosen at run time.
 *
 * The loader stores the choice in each word that a relocation asks for: IRELATIVE relocations of
 * the module itself name the resolver's address, those of other modules the symbol. This file
 * reads such a word from the process's memory; it runs nothing.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "locate_state.h"
#include "control/elf/symtab_state.h"

struct look {
	struct proc *proc;
	struct module *defined_in;
	const struct symbol *symbol;
	uint64_t address; /* found, in the file; 0: not yet */
};

/* Does the dynamic symbol have the name? */
static bool is_named(const struct elf_image *image, uint32_t index, const char *name)
{
	Elf64_Sym symbol;
	char text[128];
	size_t length = strlen(name) + 1;

	return length <= sizeof(text) &&
	       elf_image_read(image, image->dynamic.symtab + (uint64_t)index * sizeof(symbol),
			      &symbol, sizeof(symbol)) == sizeof(symbol) &&
	       elf_image_read(image, image->dynamic.strtab + symbol.st_name, text, length) ==
		       length &&
	       memcmp(text, name, length) == 0;
}

static bool is_about_it(const struct look *look, const struct module *module,
			const struct elf_image *image, const Elf64_Rela *rela)
{
	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_IRELATIVE:
		return module == look->defined_in &&
		       (uint64_t)rela->r_addend == look->symbol->address;
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
	case R_X86_64_64:
		return is_named(image, ELF64_R_SYM(rela->r_info), look->symbol->name);
	default:
		return false;
	}
}

/* Accepts a word that points to code of the module that defines the function, not to the
 * resolver. */
static void look_at(struct look *look, const struct module *module, const Elf64_Rela *rela)
{
	struct module *in = look->defined_in;
	uint64_t word, address;
	_cleanup_error_ struct error *error = mem_read(
		look->proc, taddr_of(module->bias.v + rela->r_offset), &word, sizeof(word));

	if (error || !taddr_within(taddr_of(word), in->low, in->high))
		return;
	address = word - in->bias.v;
	if (address != look->symbol->address && symtab_text(in->symtab, address))
		look->address = address;
}

static void look_through(struct look *look, const struct module *module, uint64_t table,
			 uint64_t size)
{
	const struct elf_image *image = &module->symtab->image;
	struct bytes bytes = elf_image_bytes(image, table, size);

	for (size_t at = 0; at + sizeof(Elf64_Rela) <= bytes.size && !look->address;
	     at += sizeof(Elf64_Rela)) {
		Elf64_Rela rela;

		memcpy(&rela, bytes.at + at, sizeof(rela));
		if (is_about_it(look, module, image, &rela))
			look_at(look, module, &rela);
	}
}

static void look_in(struct look *look, const struct module *module)
{
	const struct elf_image *image = &module->symtab->image;
	const Elf64_Shdr *section = elf_image_section(image, ".rela.plt");

	look_through(look, module, image->dynamic.jmprel, image->dynamic.pltrelsz);
	if (!look->address)
		look_through(look, module, image->dynamic.rela, image->dynamic.relasz);
	if (!look->address && section && section->sh_addr) /* of a static program */
		look_through(look, module, section->sh_addr, section->sh_size);
}

static struct error *not_chosen(const struct search *search, const struct symtab *symtab,
				const struct symbol *symbol)
{
	_cleanup_free_ char *start = NULL;
	const char *example = NULL;

	if (asprintf(&start, "__%s_", symbol->name) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < symtab_count(symtab) && !example; i++) {
		const struct symbol *s = symtab_get(symtab, i);

		if (s->kind == SYMBOL_FUNCTION && strncmp(s->name, start, strlen(start)) == 0)
			example = s->name;
	}
	return error_new(
		ERROR_FAILED,
		"'%s': not chosen yet by the process (IFUNC; name an implementation%s%s, or give "
		"its address)",
		search->location->text, example ? ", such as " : "", example ? example : "");
}

struct error *locate_ifunc(struct search *search, struct module *module,
			   const struct symtab *symtab, const struct symbol *symbol)
{
	struct look look = { search->proc, module, symbol, 0 };

	look_in(&look, module);
	for (size_t i = 0; i < search->modules->count && !look.address; i++) {
		struct module *other = search->modules->items[i];
		struct symtab *unused;
		_cleanup_error_ struct error *unreadable =
			module_symtab(search->proc, other, &unused);

		if (!unreadable)
			look_in(&look, other);
	}
	if (!look.address)
		return not_chosen(search, symtab, symbol);
	return locate_add(search, module, symtab_at(symtab, look.address),
			  look.address + search->location->number,
			  strdup(search->location->symbol));
}
