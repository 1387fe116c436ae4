/*
 * locate_unnamed.c - functions that a file's own symbol tables don't name (unnamed_functions.h).
 * Searched if nothing else has the name; for globs, always.
 */
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "control/base/cleanup.h"
#include "control/elf/frame_rule.h"
#include "control/modules/unnamed_functions.h"
#include "locate_state.h"
#include "name_fit.h"

static const struct symbol *find_named(const struct unnamed_functions *unnamed, const char *name)
{
	for (size_t i = 0; i < unnamed->count; i++) {
		if (strcmp(unnamed->items[i].name, name) == 0)
			return &unnamed->items[i];
	}
	return NULL;
}

struct error *locate_unnamed(struct search *search, struct module *only)
{
	for (size_t i = 0; i < search->modules->count; i++) {
		struct module *module = search->modules->items[i];
		const struct unnamed_functions *unnamed = NULL;
		_cleanup_error_ struct error *error =
			only && module != only ?
				NULL :
				module_unnamed_functions(search->proc, module, &unnamed);
		uint64_t offset = search->location->number;
		const struct symbol *symbol =
			unnamed ? find_named(unnamed, search->location->symbol) : NULL;

		if (!symbol && unnamed) {
			struct error *wrong = locate_readable_unnamed(search, module, unnamed);

			if (wrong || search->places.count)
				return wrong;
		}
		if (!symbol)
			continue;
		if (offset && search->want_function)
			return error_new(ERROR_FAILED,
					 "'%s': not the first instruction of a function",
					 search->location->text);
		return locate_add(search, module, symbol, symbol->address + offset,
				  strdup(search->location->text));
	}
	return NULL;
}

static bool is_taken(const struct places *places, uint64_t address)
{
	size_t n = sorted_count(places->count, i, places->items[i].address.v < address);

	return n < places->count && places->items[n].address.v == address;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return (x->address.v > y->address.v) - (x->address.v < y->address.v);
}

static void rules_closep(struct frame_rules **rules)
{
	if (*rules)
		frame_rules_close(*rules);
}

/* Is the function without a name a piece of another (clone_name.h)? Compilers give pieces unwind
 * tables of their own, which begin in the middle of a frame. Globs that say fn_ fit them. */
static bool is_piece(const struct module *module, struct frame_rules **rules,
		     const struct symbol *symbol, const char *pattern)
{
	if (symbol->source != SOURCE_EH_FRAME || strstr(pattern, "fn_") ||
	    symbol->address == symtab_entry(module->symtab))
		return false;
	if (!*rules)
		*rules = frame_rules_open(module->symtab);
	return *rules && frame_rule_at(*rules, symbol->address) == FRAME_OTHER;
}

/* Places so far are sorted by address. */
struct error *locate_unnamed_glob(struct search *search, struct module *module)
{
	_cleanup_(rules_closep) struct frame_rules *rules = NULL;
	const struct unnamed_functions *unnamed = NULL;
	struct places found = { 0 };
	struct error *error = module_unnamed_functions(search->proc, module, &unnamed);

	for (size_t i = 0; !error && i < unnamed->count; i++) {
		const struct symbol *symbol = &unnamed->items[i];
		struct place place = { .module = module, .symbol = symbol,
				       .address = taddr_of(symbol->address + module->bias.v) };

		if (is_taken(&search->places, place.address.v) ||
		    (symbol->source == SOURCE_PLT && !strstr(search->location->symbol, "@plt")) ||
		    !(place.name = name_fit_glob(symbol->name, search->location->symbol)))
			continue;
		if (is_piece(module, &rules, symbol, search->location->symbol)) {
			free(place.name);
			continue;
		}
		if (found.count && vec_last(&found)->address.v == place.address.v) {
			if (!symbol_is_better(symbol, vec_last(&found)->symbol)) {
				free(place.name);
				continue;
			}
			free(found.items[--found.count].name);
		}
		if (!vec_push(&found, place)) {
			free(place.name);
			error = error_new(ERROR_FAILED, "out of memory");
		}
	}
	for (size_t i = 0; i < found.count && !error; i++) {
		if (vec_push(&search->places, found.items[i]))
			found.items[i].name = NULL;
		else
			error = error_new(ERROR_FAILED, "out of memory");
	}
	places_free(&found);
	if (!error && search->places.count)
		qsort(search->places.items, search->places.count, sizeof(*search->places.items),
		      compare_places);
	return error;
}
