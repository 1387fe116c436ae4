/* unnamed_functions.c - functions of debug files, of .gnu_debugdata, and of .eh_frame alone. */
#include "unnamed_functions.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/dwarf/debug_state.h"
#include "module_head.h"
#include "control/elf/symtab_state.h"

#define UNPACKED_MAX (64u << 20)
#define LZMA_MEMORY_MAX (256u << 20)
#define SYMBOLS_MAX 4000000u

bool unnamed_functions_add(struct unnamed_functions *unnamed, const char *name, uint64_t address,
			   uint64_t size, enum symbol_source source, bool global)
{
	struct symbol symbol = { .name = strdup(name),
				 .address = address,
				 .size = size,
				 .kind = SYMBOL_FUNCTION,
				 .source = source,
				 .global = global };

	if (symbol.name && unnamed->count < SYMBOLS_MAX && vec_push(unnamed, symbol))
		return true;
	free((char *)symbol.name);
	return false;
}

void unnamed_functions_free(struct unnamed_functions *unnamed)
{
	for (size_t i = 0; i < unnamed->count; i++)
		free((char *)unnamed->items[i].name);
	vec_free(unnamed);
}

static int compare(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void sort(struct unnamed_functions *unnamed)
{
	size_t kept = 0;

	if (!unnamed->count)
		return;
	qsort(unnamed->items, unnamed->count, sizeof(*unnamed->items), compare);
	for (size_t i = 1; i < unnamed->count; i++) {
		if (compare(&unnamed->items[i], &unnamed->items[kept]) == 0)
			free((char *)unnamed->items[i].name);
		else
			unnamed->items[++kept] = unnamed->items[i];
	}
	unnamed->count = kept + 1;
}

/* ---- symbol tables of other files ------------------------------------------------------------ */

static bool is_known(const struct symtab *symtab, const char *name, uint64_t address)
{
	for (const struct symbol *s = symtab_first_named(symtab, name); s;
	     s = symtab_next_named(symtab, s)) {
		if (s->address == address)
			return true;
	}
	return false;
}

static bool is_printable(const char *name)
{
	for (; *name; name++) {
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			return false;
	}
	return true;
}

/* Adds the functions of another symbol table that `symtab` doesn't name. */
static bool add_table(const struct symtab *symtab, Elf *elf, enum symbol_source source,
		      struct unnamed_functions *unnamed)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		Elf_Data *data;
		GElf_Sym symbol;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		data = elf_getdata(section, NULL);
		for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
			const char *name = elf_strptr(elf, header.sh_link, symbol.st_name);

			if (GELF_ST_TYPE(symbol.st_info) != STT_FUNC ||
			    symbol.st_shndx == SHN_UNDEF || !name || !*name ||
			    !is_printable(name) ||
			    !elf_image_is_executable(&symtab->image, symbol.st_value) ||
			    is_known(symtab, name, symbol.st_value))
				continue;
			if (!unnamed_functions_add(unnamed, name, symbol.st_value, symbol.st_size,
						   source,
						   GELF_ST_BIND(symbol.st_info) != STB_LOCAL))
				return false;
		}
	}
	return true;
}

/* The caller frees. NULL: damaged, or too large. */
static uint8_t *unpack(struct bytes packed, size_t *ret_size)
{
	uint64_t memory = LZMA_MEMORY_MAX;

	if (packed.size > UNPACKED_MAX)
		return NULL;
	for (size_t room = packed.size * 8 + 4096; room <= UNPACKED_MAX; room *= 2) {
		uint8_t *bytes = malloc(room);
		size_t in = 0, out = 0;
		lzma_ret status =
			bytes ? lzma_stream_buffer_decode(&memory, 0, NULL, packed.at, &in,
							  packed.size, bytes, &out, room) :
				LZMA_MEM_ERROR;

		if (status == LZMA_OK) {
			*ret_size = out;
			return bytes;
		}
		free(bytes);
		if (status != LZMA_BUF_ERROR)
			return NULL;
	}
	return NULL;
}

static bool add_debugdata(const struct symtab *symtab, struct unnamed_functions *unnamed)
{
	const struct elf_image *image = &symtab->image;
	const Elf64_Shdr *header = elf_image_section(image, ".gnu_debugdata");
	_cleanup_free_ uint8_t *bytes = NULL;
	Elf_Scn *section = NULL;
	struct bytes packed = { 0 };
	bool done = true;
	size_t size = 0;
	Elf *elf;

	while (header && (section = elf_nextscn(image->elf, section))) {
		if (elf64_getshdr(section) == header)
			packed = elf_image_section_bytes(section, SHT_PROGBITS);
	}
	if (packed.size)
		bytes = unpack(packed, &size);
	elf = bytes ? elf_memory((char *)bytes, size) : NULL;
	if (elf) {
		done = elf_kind(elf) != ELF_K_ELF ||
		       add_table(symtab, elf, SOURCE_DEBUGDATA, unnamed);
		elf_end(elf);
	}
	return done;
}

/* ---- functions without a name ---------------------------------------------------------------- */

/* Has the function that starts at the address a name, or is it part of a named one? */
static bool is_named(const struct symtab *symtab, const struct unnamed_functions *unnamed,
		     size_t named, uint64_t address)
{
	size_t n;

	if (symtab_at(symtab, address))
		return true;
	n = sorted_count(named, i, unnamed->items[i].address <= address);
	return n && address - unnamed->items[n - 1].address <
			      (unnamed->items[n - 1].size ? unnamed->items[n - 1].size : 1);
}

/* Is it the linkage table, which has an FDE but isn't a function? */
static bool is_linkage(const struct elf_image *image, uint64_t address)
{
	static const char *const names[] = { ".plt", ".plt.got", ".plt.sec" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const Elf64_Shdr *section = elf_image_section(image, names[i]);

		if (section && address - section->sh_addr < section->sh_size)
			return true;
	}
	return false;
}

/* Adds functions without a name after the `named` ones, which are sorted. */
static bool add_unnamed(const struct symtab *symtab, struct unnamed_functions *unnamed)
{
	const struct ranges *fdes = symtab_fdes(symtab);
	size_t named = unnamed->count;
	char name[32];

	for (size_t i = 0; i < fdes->count; i++) {
		const struct range *fde = &fdes->items[i];

		if ((i && fde->start == fdes->items[i - 1].start) ||
		    is_named(symtab, unnamed, named, fde->start) ||
		    is_linkage(&symtab->image, fde->start))
			continue;
		snprintf(name, sizeof(name), "fn_%" PRIx64, fde->start);
		if (!unnamed_functions_add(unnamed, name, fde->start, fde->end - fde->start,
					   SOURCE_EH_FRAME, false))
			return false;
	}
	return true;
}

/* ---- all unnamed functions ------------------------------------------------------------------- */

struct error *unnamed_functions_read(const struct symtab *symtab, const struct debug *debug,
			  struct unnamed_functions *ret_unnamed)
{
	_cleanup_(unnamed_functions_free) struct unnamed_functions unnamed = { 0 };
	struct error *error = NULL;
	bool done = true;

	if (debug && debug->elf != symtab->image.elf)
		done = add_table(symtab, debug->elf, SOURCE_DEBUG, &unnamed);
	done = done && add_debugdata(symtab, &unnamed);
	sort(&unnamed);
	done = done && add_unnamed(symtab, &unnamed);
	if (done)
		error = plt_read(symtab, &unnamed);
	if (!done)
		error = error_errno(ENOMEM, "%s", symtab->image.path);
	if (error)
		return error;
	sort(&unnamed);
	*ret_unnamed = unnamed;
	unnamed = (struct unnamed_functions){ 0 };
	return NULL;
}

struct error *module_unnamed_functions(struct proc *proc, struct module *module,
			    const struct unnamed_functions **ret_unnamed)
{
	struct symtab *symtab;
	struct debug *debug = NULL;
	struct error *error = module_symtab(proc, module, &symtab);

	if (error)
		return error;
	if (!module->unnamed) {
		error_free(module_debug(proc, module, &debug));
		module->unnamed = calloc(1, sizeof(*module->unnamed));
		error = module->unnamed ? unnamed_functions_read(symtab, debug, module->unnamed) :
					 error_new(ERROR_FAILED, "out of memory");
	}
	if (error)
		return error;
	*ret_unnamed = module->unnamed;
	return NULL;
}

bool unnamed_functions_fits(const struct symbol *symbol, const char *pattern)
{
	if (symbol->source == SOURCE_PLT && !strstr(pattern, "@plt"))
		return false;
	return fnmatch(pattern, symbol->name, 0) == 0;
}
