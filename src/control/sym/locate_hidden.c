/*
 * locate_hidden.c - names that a stripped file itself doesn't have: in its separate debug file, and in the compressed symbol
 * table that some distributions leave in it (.gnu_debugdata). Asked only when nothing else has the name.
 */
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "debug_internal.h"
#include "locate.h"
#include "symtab.h"

#define UNPACKED_MAX (64u << 20)
#define LZMA_MEMORY_MAX (256u << 20)

/* A function of that name in the file's symbol table. */
static bool find_in(Elf *elf, const char *name, uint64_t *ret_address)
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
			const char *found = elf_strptr(elf, header.sh_link, symbol.st_name);

			if (GELF_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
			    found && strcmp(found, name) == 0) {
				*ret_address = symbol.st_value;
				return true;
			}
		}
	}
	return false;
}

/* Caller frees. NULL: not compressed as it should be, or too large. */
static uint8_t *unpack(struct bytes packed, size_t *ret_size)
{
	uint64_t memory = LZMA_MEMORY_MAX;

	for (size_t room = packed.size * 8 + 4096; room <= UNPACKED_MAX; room *= 2) {
		uint8_t *bytes = malloc(room);
		size_t in = 0, out = 0;
		lzma_ret status = bytes ? lzma_stream_buffer_decode(&memory, 0, NULL, packed.at, &in,
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

static bool find_in_debugdata(const struct image *image, const char *name, uint64_t *ret_address)
{
	const Elf64_Shdr *header = image_section(image, ".gnu_debugdata");
	_cleanup_free_ uint8_t *bytes = NULL;
	Elf_Scn *section = NULL;
	struct bytes packed = { 0 };
	bool found = false;
	size_t size = 0;
	Elf *elf;

	while (header && (section = elf_nextscn(image->elf, section))) {
		if (elf64_getshdr(section) == header)
			packed = image_section_bytes(section, SHT_PROGBITS);
	}
	if (packed.size)
		bytes = unpack(packed, &size);
	elf = bytes ? elf_memory((char *)bytes, size) : NULL;
	if (elf) {
		found = elf_kind(elf) == ELF_K_ELF && find_in(elf, name, ret_address);
		elf_end(elf);
	}
	return found;
}

static bool find_hidden(struct search *search, struct module *module, struct symtab *symtab,
			uint64_t *ret_address)
{
	const char *name = search->location->symbol;
	struct debug *debug = NULL;
	_cleanup_error_ struct error *error = module_debug(search->proc, module, &debug);

	return (debug && find_in(debug->elf, name, ret_address)) ||
	       find_in_debugdata(&symtab->image, name, ret_address);
}

struct error *locate_hidden(struct search *search, struct module *only)
{
	for (size_t i = 0; i < search->modules->count; i++) {
		struct module *module = search->modules->items[i];
		struct symtab *symtab = NULL;
		_cleanup_error_ struct error *error =
			only && module != only ? NULL : module_symtab(search->proc, module, &symtab);
		uint64_t offset = search->location->number, address;

		if (!symtab || !find_hidden(search, module, symtab, &address) ||
		    !symtab_text(symtab, address + offset))
			continue;
		if (offset && search->want_function)
			return error_new(ERROR_FAILED, "'%s' isn't the first instruction of a function",
					 search->location->text);
		return locate_add(search, module, symtab_at(symtab, address), address + offset,
				  strdup(search->location->text));
	}
	return NULL;
}
