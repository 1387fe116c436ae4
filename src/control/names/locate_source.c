/* locate_source.c - FILE:LINE, and inlined copies of functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/dwarf/debug.h"
#include "locate_state.h"
#include "control/elf/symtab_state.h"

static struct error *add_lines(struct search *search, struct module *module,
			       const struct debug_addresses *addresses)
{
	struct symtab *symtab;
	struct error *error = module_symtab(search->proc, module, &symtab);

	for (size_t i = 0; i < addresses->count && !error; i++) {
		uint64_t address = addresses->items[i].address;

		error = locate_add(search, module, symtab_at(symtab, address), address,
				   strdup(search->location->text));
	}
	return error;
}

static struct error *no_code(const struct search *search, bool file_found, bool has_debug)
{
	const struct location *location = search->location;

	if (!file_found && !has_debug)
		return error_new(ERROR_FAILED, "'%s': no debug information for %s",
				 location->text,
				 locate_module_name(search, search->modules->items[0]));
	if (!file_found)
		return error_new(ERROR_FAILED, "'%s': no source file '%s' in the debug information",
				 location->text, location->file);
	return error_new(ERROR_FAILED, "'%s': no code at or after this line",
			 location->text);
}

struct error *locate_line(struct search *search, struct module *only)
{
	const struct location *location = search->location;
	/* has_debug: of the program, or of the module named */
	bool has_debug = false, file_found = false;

	for (size_t i = 0; i < search->modules->count; i++) {
		struct module *module = search->modules->items[i];
		struct debug_addresses addresses = { 0 };
		struct debug *debug = NULL;
		_cleanup_error_ struct error *unreadable =
			only && module != only ? NULL : module_debug(search->proc, module, &debug);
		struct error *error = NULL;
		int line;

		if (!debug)
			continue;
		has_debug |= only || module->is_executable;
		file_found |=
			debug_find_line(debug, location->file, location->line, &addresses, &line);
		if (addresses.count)
			error = add_lines(search, module, &addresses);
		vec_free(&addresses);
		if (error || search->places.count)
			return error;
	}
	return no_code(search, file_found, has_debug);
}

static struct error *add_copies(struct search *search, struct module *module,
				const struct debug_addresses *copies)
{
	struct symtab *symtab;
	struct error *error = module_symtab(search->proc, module, &symtab);

	for (size_t i = 0; i < copies->count && !error; i++) {
		uint64_t address = copies->items[i].address;

		error = locate_add(search, module, symtab_at(symtab, address), address,
				   strdup(search->location->symbol));
		if (!error)
			vec_last(&search->places)->inlined = copies->items[i].inlined;
	}
	return error;
}

/* Are only the program, its loader and the vdso mapped? The name may be in a library to come. */
static bool is_loading(const struct search *search)
{
	const struct symtab *program = search->modules->items[0]->symtab;

	return search->modules->count <= 3 && program && program->image.has_interpreter;
}

struct error *locate_inlined(struct search *search, struct module *only,
			     const struct symbol *symbol)
{
	/* This walks all of the debug information: only if no library to come may have the name. */
	if (!symbol && !only && is_loading(search))
		return NULL;
	for (size_t i = 0; i < search->modules->count; i++) {
		struct module *module = search->modules->items[i];
		struct debug_addresses copies = { 0 };
		struct debug_function function;
		struct debug *debug = NULL;
		_cleanup_error_ struct error *unreadable =
			only && module != only ? NULL : module_debug(search->proc, module, &debug);
		struct error *error = NULL;

		/* Without a symbol, search the program only: the search takes a while. */
		if (!debug || search->location->number || (!only && !module->is_executable))
			continue;
		if (symbol && !debug_function_at(debug, symbol->address, &function))
			return NULL;
		debug_find_inlined(debug, symbol ? &function : NULL, search->location->symbol,
				   &copies);
		if (copies.count)
			error = add_copies(search, module, &copies);
		vec_free(&copies);
		if (error || search->places.count)
			return error;
	}
	return NULL;
}
