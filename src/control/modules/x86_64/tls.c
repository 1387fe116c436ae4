/*
 * tls.c - where a module's thread-local variables are, seen from a thread's FS base.
 *
 *   | library's block | ... | program's block | FS base: thread control block, its dtv at +8
 *                     <-- offset ------------->
 *
 * The program's block ends at the FS base: the linker fixes this. Only the loader knows the place
 * of a library's block. It stores it in words that the library's code reads: the distance of one
 * variable (R_X86_64_TPOFF64), or the library's index in each thread's table of blocks, the dtv
 * (R_X86_64_DTPMOD64). The words are read at each hit, since a library isn't relocated yet when
 * its loading is noticed.
 */
#include "control/base/cleanup.h"
#include "control/elf/symtab_state.h"
#include "control/modules/tls.h"

#define SIZE_MAX_OF_BLOCK (1u << 30)

struct search {
	/* address of a word, and the offset in the block of the variable whose distance it holds */
	uint64_t distance_at, distance_of;
	uint64_t number_at; /* address of the word with the library's index in the dtv */
};

/* Only relocations without a symbol surely mean the library's own block: an exported variable may
 * be another module's of the same name. */
static void look_at(void *context, const Elf64_Rela *rela)
{
	struct search *search = context;

	if (rela->r_info == ELF64_R_INFO(0, R_X86_64_TPOFF64)) {
		search->distance_at = rela->r_offset;
		search->distance_of = (uint64_t)rela->r_addend;
	} else if (rela->r_info == ELF64_R_INFO(0, R_X86_64_DTPMOD64)) {
		search->number_at = rela->r_offset;
	}
}

/* `skew` is left free at the start, so that the block is aligned as its address in the file. */
static struct tls of_program(const Elf64_Phdr *header)
{
	uint64_t align = header->p_align > 1 ? header->p_align : 1,
		 skew = -header->p_vaddr & (align - 1);
	uint64_t size = (header->p_memsz - skew + align - 1) / align * align + skew;

	return (struct tls){ .kind = TLS_FIXED, .offset = -(int64_t)size };
}

static struct tls of_library(const struct module *module)
{
	struct search search = { 0 };

	relocs_each(module->symtab, look_at, &search);
	if (search.distance_at)
		return (struct tls){ .kind = TLS_DISTANCE,
				     .offset = -(int64_t)search.distance_of,
				     .word = taddr_add(module->bias, (int64_t)search.distance_at) };
	if (search.number_at)
		return (struct tls){ .kind = TLS_NUMBERED,
				     .word = taddr_add(module->bias, (int64_t)search.number_at) };
	return (struct tls){ .kind = TLS_UNKNOWN };
}

struct tls module_tls(struct proc *proc, struct module *module)
{
	struct tls none = { .kind = TLS_UNKNOWN };
	const Elf64_Phdr *headers;
	struct symtab *symtab;
	_cleanup_error_ struct error *error = module_symtab(proc, module, &symtab);

	headers = error ? NULL : elf64_getphdr(symtab->image.elf);
	for (size_t i = 0; headers && i < symtab->image.header.e_phnum; i++) {
		const Elf64_Phdr *header = &headers[i];

		if (header->p_type != PT_TLS)
			continue;
		if (header->p_memsz > SIZE_MAX_OF_BLOCK || header->p_align > SIZE_MAX_OF_BLOCK ||
		    (header->p_align & (header->p_align - 1)))
			return none;
		return module->is_executable ? of_program(header) : of_library(module);
	}
	return none;
}
