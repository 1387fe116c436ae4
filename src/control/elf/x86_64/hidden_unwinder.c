/*
 * hidden_unwinder.c - libgcc's unwinder in a file that was linked with -static-libgcc and has lost
 * its symbols.
 *
 * libgcc asks _Unwind_Find_FDE(pc, bases) for the table of each frame, and that function asks the
 * loader where the tables are, by one of two functions of the libc. The bases are a member of
 * libgcc's struct _Unwind_Context (target/find.c), which has been at one place since GCC 3. So that
 * function is the one that calls the libc's, and that is called with the address of that member.
 */
#include <string.h>

#include "control/elf/symtab_state.h"

#define CALL_LENGTH 5u
#define WORD_CALL_LENGTH 6u /* through a word of memory */
#define ARGUMENT_WITHIN 32u /* bytes between the argument and the call */
#define BASES_OFFSET 0xa8u /* of the bases in the context */

/* Functions of the libc that tell where tables are. */
static const char *const tellers[] = { "_dl_find_object", "dl_iterate_phdr" };

/* ---- what the file takes from others --------------------------------------------------------- */

struct imports {
	struct bytes symbols, strings;
	bool teller, unwinder, personality;
};

static const char *imported_name(const struct imports *imports, uint64_t index)
{
	Elf64_Sym symbol;

	if (index >= imports->symbols.size / sizeof(symbol))
		return NULL;
	memcpy(&symbol, imports->symbols.at + index * sizeof(symbol), sizeof(symbol));
	if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= imports->strings.size ||
	    !memchr(imports->strings.at + symbol.st_name, 0,
		    imports->strings.size - symbol.st_name))
		return NULL;
	return (const char *)imports->strings.at + symbol.st_name;
}

static bool is_teller(const char *name)
{
	for (size_t i = 0; i < sizeof(tellers) / sizeof(tellers[0]); i++) {
		if (!strcmp(name, tellers[i]))
			return true;
	}
	return false;
}

static void note_import(void *context, const Elf64_Rela *rela)
{
	struct imports *imports = context;
	const char *name = imported_name(imports, ELF64_R_SYM(rela->r_info));

	if (!name)
		return;
	imports->teller |= is_teller(name);
	imports->unwinder |= !strncmp(name, "_Unwind_", strlen("_Unwind_"));
	imports->personality |= strstr(name, "_personality") != NULL;
}

static struct imports read_imports(const struct symtab *symtab)
{
	const struct dynamic *d = &symtab->image.dynamic;
	struct imports imports = {
		.symbols = elf_image_bytes(&symtab->image, d->symtab, UINT64_MAX),
		.strings = elf_image_bytes(&symtab->image, d->strtab, d->strsz),
	};

	if (d->symtab)
		relocs_each(symtab, note_import, &imports);
	return imports;
}

/* ---- its function ---------------------------------------------------------------------------- */

static uint64_t target_of(const uint8_t *distance, uint64_t end)
{
	int32_t value;

	memcpy(&value, distance, sizeof(value));
	return end + (uint64_t)(int64_t)value;
}

static bool is_tellers_word(const struct symtab *symtab, uint64_t word)
{
	const struct bound_function *bound = symtab_bound(symtab, word);

	return bound && is_teller(bound->name);
}

static bool is_tellers_entry(const struct symtab *symtab, uint64_t address)
{
	const struct bound_function *function = symtab_linked(symtab, address);

	return function && is_teller(function->name);
}

/* Is a call of a teller there, or a jump to one? */
static bool calls_teller(const struct symtab *symtab, const struct text_range *text, uint64_t at)
{
	const uint8_t *code = text->bytes + at;
	uint64_t address = text->address + at, left = text->size - at;

	if (left >= CALL_LENGTH && (code[0] == 0xe8 || code[0] == 0xe9))
		return is_tellers_entry(symtab, target_of(code + 1, address + CALL_LENGTH));
	return left >= WORD_CALL_LENGTH && code[0] == 0xff &&
	       (code[1] == 0x15 || code[1] == 0x25) &&
	       is_tellers_word(symtab, target_of(code + 2, address + WORD_CALL_LENGTH));
}

/* lea rsi, [REGISTER + BASES_OFFSET], in all its forms */
static bool is_argument(const uint8_t *code, uint64_t size)
{
	static const uint8_t distance[] = { BASES_OFFSET, 0, 0, 0 };
	uint64_t at = 3;

	if (size < at + sizeof(distance) || (code[0] & 0xfe) != 0x48 || code[1] != 0x8d ||
	    (code[2] & 0xf8) != 0xb0)
		return false;
	at += (code[2] & 7) == 4; /* one byte more for rsp and r12 */
	return size >= at + sizeof(distance) && !memcmp(code + at, distance, sizeof(distance));
}

static bool is_called_with_bases(const struct symtab *symtab, uint64_t function)
{
	size_t count;
	const struct symtab_jump *jumps = symtab_jumps_to(symtab, function, &count);

	for (size_t i = 0; i < count; i++) {
		const struct text_range *text = symtab_text(symtab, jumps[i].from);
		uint64_t call = jumps[i].from - text->address;
		uint64_t first = call > ARGUMENT_WITHIN ? call - ARGUMENT_WITHIN : 0;

		for (uint64_t at = first; at < call; at++) {
			if (is_argument(text->bytes + at, call - at))
				return true;
		}
	}
	return false;
}

static uint64_t find_in_text(const struct symtab *symtab, const struct text_range *text)
{
	uint64_t start, end, seen = 0;

	for (uint64_t at = 0; at < text->size; at++) {
		if (!calls_teller(symtab, text, at) ||
		    !symtab_fde(symtab, text->address + at, &start, &end) || start == seen)
			continue;
		if (is_called_with_bases(symtab, start))
			return start;
		seen = start;
	}
	return 0;
}

static uint64_t find_function(const struct symtab *symtab)
{
	uint64_t found = 0;

	for (size_t i = 0; i < symtab->image.segment_count && !found; i++) {
		const struct text_range *text =
			symtab_text(symtab, symtab->image.segments[i].address);

		if (text)
			found = find_in_text(symtab, text);
	}
	return found;
}

bool symtab_hidden_unwinder(const struct symtab *symtab, uint64_t *ret_find)
{
	if (!symtab->unwinder_known) {
		struct symtab *lazy = symtab_lazy(symtab);
		struct imports imports = { 0 };

		lazy->unwinder_known = true;
		if (symtab_has_handlers(symtab) && !symtab_find(symtab, "_Unwind_RaiseException"))
			imports = read_imports(symtab);
		if (imports.teller && !imports.unwinder) {
			lazy->unwinder_find = find_function(symtab);
			lazy->has_hidden_unwinder = lazy->unwinder_find || !imports.personality;
		}
	}
	*ret_find = symtab->unwinder_find;
	return symtab->has_hidden_unwinder;
}
