/* locate_readable.c - C++ and Rust names as programmers write them. */
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/strbuf.h"
#include "demangle.h"
#include "locate_state.h"

#define CANDIDATES_MAX 8

struct candidate {
	const struct symbol *symbol;
	char *readable; /* owned */
};

struct candidates {
	struct candidate *items;
	size_t count, room;
};

static void candidates_free(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++)
		free(candidates->items[i].readable);
	vec_free(candidates);
}

/* Virtual calls go through a thunk to the function. Its readable name fits too, but users mean the
 * function. */
static bool is_thunk(const char *mangled)
{
	return strncmp(mangled, "_ZT", 3) == 0 && mangled[3] && strchr("hvc", mangled[3]);
}

/* Collects symbols that fit; those of one address (constructors have two names) count once. */
static bool collect(const struct symtab *symtab, const char *wanted, struct candidates *candidates)
{
	for (size_t i = 0; i < symtab_count(symtab); i++) {
		const struct symbol *symbol = symtab_get(symtab, i);
		_cleanup_free_ char *readable = NULL;

		if (symbol->kind != SYMBOL_FUNCTION || !demangle_is_mangled(symbol->name) ||
		    !demangle_may_fit(symbol->name, wanted) ||
		    (is_thunk(symbol->name) && !strstr(wanted, "thunk")) ||
		    (candidates->count && vec_last(candidates)->symbol->address == symbol->address))
			continue;
		readable = demangle(symbol->name);
		if (!readable || !demangle_fits(readable, wanted, false))
			continue;
		if (!vec_push(candidates, (struct candidate){ symbol, readable }))
			return false;
		readable = NULL;
	}
	return true;
}

static struct error *is_ambiguous(const struct search *search, const struct candidates *candidates)
{
	_cleanup_(strbuf_free) struct strbuf list = { 0 };

	for (size_t i = 0; i < candidates->count && i < CANDIDATES_MAX; i++)
		strbuf_printf(&list, "%s'%s'", i ? ", " : "", candidates->items[i].readable);
	if (candidates->count > CANDIDATES_MAX)
		strbuf_printf(&list, ", ...");
	return error_new(ERROR_FAILED, "'%s': %zu functions have this name (give one of %s)",
			 search->location->symbol, candidates->count, list.text ? list.text : "");
}

/* Adds one function, or several of one readable name (the two bodies of a constructor). */
static struct error *take(struct search *search, struct module *module,
			  const struct candidates *candidates)
{
	uint64_t offset = search->location->number;
	const struct candidate *first = &candidates->items[0];

	for (size_t i = 1; i < candidates->count; i++) {
		if (strcmp(candidates->items[i].readable, first->readable) != 0)
			return is_ambiguous(search, candidates);
	}
	for (size_t i = 0; i < candidates->count; i++) {
		const struct symbol *symbol = candidates->items[i].symbol;
		struct error *error;

		if (offset && (offset >= symbol->size || search->want_function))
			return error_new(ERROR_FAILED, "'%s': not %s %s", search->location->text,
					 search->want_function ? "the first instruction of" : "in",
					 first->readable);
		error = locate_add(search, module, symbol, symbol->address + offset,
				   strdup(search->location->text));
		if (error)
			return error;
	}
	return NULL;
}

struct error *locate_readable(struct search *search, struct module *only)
{
	for (size_t i = 0; i < search->modules->count; i++) {
		_cleanup_(candidates_free) struct candidates candidates = { 0 };
		struct module *module = search->modules->items[i];
		struct symtab *symtab;
		_cleanup_error_ struct error *unreadable =
			only && module != only ? NULL :
						 module_symtab(search->proc, module, &symtab);

		if (unreadable || (only && module != only))
			continue;
		if (!collect(symtab, search->location->symbol, &candidates))
			return error_new(ERROR_FAILED, "out of memory");
		if (candidates.count)
			return take(search, module, &candidates);
	}
	return NULL;
}
