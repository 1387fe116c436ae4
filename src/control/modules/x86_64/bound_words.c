/*
 * bound_words.c - words in which the loader stores a function's address, and where they lead.
 */
#include <string.h>

#include "control/base/cleanup.h"
#include "control/elf/symtab_state.h"
#include "control/modules/bindings.h"

struct look {
	struct proc *proc;
	const struct module *into, *module;
	const char *const *names;
	size_t count;
	struct bytes symbols, strings; /* of the module's dynamic table */
	bool found;
};

static bool is_asked_for(const struct look *look, uint64_t index)
{
	Elf64_Sym symbol;

	if (index >= look->symbols.size / sizeof(symbol))
		return false;
	memcpy(&symbol, look->symbols.at + index * sizeof(symbol), sizeof(symbol));
	for (size_t i = 0; i < look->count; i++) {
		size_t length = strlen(look->names[i]) + 1;

		if (symbol.st_name < look->strings.size &&
		    length <= look->strings.size - symbol.st_name &&
		    !memcmp(look->strings.at + symbol.st_name, look->names[i], length))
			return true;
	}
	return false;
}

static void look_at(void *context, const Elf64_Rela *rela)
{
	struct look *look = context;
	uint32_t type = ELF64_R_TYPE(rela->r_info);
	bool is_word = type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
		       type == R_X86_64_64;
	uint64_t word;

	if (look->found || !is_word || !is_asked_for(look, ELF64_R_SYM(rela->r_info)))
		return;
	_cleanup_error_ struct error *unreadable =
		mem_read(look->proc, taddr_add(look->module->bias, (int64_t)rela->r_offset), &word,
			 sizeof(word));
	look->found = unreadable ||
		      taddr_within(taddr_of(word), look->into->low, look->into->high);
}

bool bound_words_lead_into(struct proc *proc, const struct modules *modules,
			   const struct module *into, const char *const *names, size_t count)
{
	struct look look = { .proc = proc, .into = into, .names = names, .count = count };

	for (size_t i = 0; i < modules->count && !look.found; i++) {
		struct symtab *symtab;
		_cleanup_error_ struct error *unreadable =
			module_symtab(proc, modules->items[i], &symtab);

		if (unreadable || modules->items[i] == into || !symtab->image.dynamic.symtab)
			continue;
		const struct dynamic *dynamic = &symtab->image.dynamic;
		/* The table doesn't tell its size. Linkers put the strings behind it; else it may
		 * reach to its segment's end. */
		uint64_t size = dynamic->strtab > dynamic->symtab
					? dynamic->strtab - dynamic->symtab
					: symtab->image.file_size;

		look.module = modules->items[i];
		look.symbols = elf_image_bytes(&symtab->image, dynamic->symtab, size);
		look.strings = elf_image_bytes(&symtab->image, dynamic->strtab, dynamic->strsz);
		relocs_each(symtab, look_at, &look);
	}
	return look.found;
}
