/* locate.c - addresses, names and globs to places; the other kinds of LOC are in locate_*.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "demangle.h"
#include "locate_state.h"
#include "name_fit.h"
#include "spell.h"
#include "control/elf/symtab_state.h"

#define CANDIDATES_MAX 5
#define LIBRARIES_MAX 3

static struct error *out_of_memory(const struct search *search)
{
	return error_errno(ENOMEM, "'%s'", search->location->text);
}

static const char *program_name(const struct search *search)
{
	return module_called(search->proc, search->modules->items[0]);
}

const char *locate_module_name(const struct search *search, const struct module *module)
{
	return module_called(search->proc, module);
}

static struct error *no_module(const struct search *search)
{
	const char *name = search->location->module;
	_cleanup_(strbuf_free) struct strbuf hint = { 0 };
	struct spell_near near = { .count = 0 };

	for (size_t i = 0; i < search->modules->count; i++)
		spell_offer(&near, name, locate_module_name(search, search->modules->items[i]));
	spell_print(&near, &hint);
	return error_new(
		ERROR_FAILED, "no module '%s' in %s (pid %d)%s (--wait waits until it is loaded)",
		name, program_name(search), (int)search->proc->pid, hint.length ? hint.text : "");
}

/* ---- places ---------------------------------------------------------------------------------- */

struct error *locate_add(struct search *search, struct module *module,
			       const struct symbol *symbol, uint64_t address, char *name)
{
	struct place place = { .module = module, .symbol = symbol, .name = name,
			       .address = taddr_of(address + module->bias.v) };

	if (name && vec_push(&search->places, place))
		return NULL;
	free(name);
	return out_of_memory(search);
}

static char *name_with_offset(const char *symbol, uint64_t offset)
{
	char *name;

	if (offset == 0)
		return strdup(symbol);
	return asprintf(&name, "%s+0x%" PRIx64, symbol, offset) < 0 ? NULL : name;
}

/* The error for an address that isn't a function's first instruction. */
static struct error *not_a_function(const struct search *search, const struct symtab *symtab,
				    const struct symbol *symbol, uint64_t address)
{
	uint64_t start, end;

	if (symbol && symbol->address != address)
		return error_new(
			ERROR_FAILED,
			"'%s': not the first instruction of a function (it is %s+0x%" PRIx64 ")",
			search->location->text, symbol->name, address - symbol->address);
	if (symtab_fde(symtab, address, &start, &end))
		return error_new(ERROR_FAILED,
				 "'%s': not the first instruction of a function (it is 0x%" PRIx64
				 " bytes into one without a name)",
				 search->location->text, address - start);
	return error_new(ERROR_FAILED, "'%s': no function is known to start here",
			 search->location->text);
}

static struct error *check_function(const struct search *search, const struct symtab *symtab,
				    const struct symbol *symbol, uint64_t address)
{
	uint64_t start, end;

	if (!search->want_function || (symbol && symbol->address == address))
		return NULL;
	if (symtab_fde(symtab, address, &start, &end) && start == address)
		return NULL;
	return not_a_function(search, symtab, symbol, address);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static struct error *not_mapped(const struct search *search, uint64_t address)
{
	const struct module *program = search->modules->items[0];

	if (program->bias.v && address < program->high.v - program->bias.v)
		return error_new(ERROR_FAILED,
				 "'%s': not in the code of any module of %s (write %s@%s for an "
				 "address in the file)",
				 search->location->text, program_name(search),
				 search->location->text, program_name(search));
	return error_new(ERROR_FAILED, "'%s': not in the code of any module of %s",
			 search->location->text, program_name(search));
}

/* Without @MODULE, an address of the process; with it, of the file. */
static struct error *locate_address(struct search *search, struct module *module)
{
	uint64_t number = search->location->number, address = number;
	const struct symbol *symbol;
	struct symtab *symtab;
	struct error *error;
	char *name;

	if (!module && !search->location->module) {
		module = modules_at(search->modules, taddr_of(number));
		address -= module ? module->bias.v : 0;
	}
	if (!module)
		return not_mapped(search, number);
	error = module_symtab(search->proc, module, &symtab);
	if (error)
		return error;
	if (!symtab_text(symtab, address))
		return error_new(ERROR_FAILED, "'%s': not in the code of %s",
				 search->location->text, locate_module_name(search, module));
	symbol = symtab_at(symtab, address);
	error = check_function(search, symtab, symbol, address);
	if (error)
		return error;
	return locate_add(search, module, symbol, address,
			 asprintf(&name, "0x%" PRIx64, number) < 0 ? NULL : name);
}

/* ---- names ----------------------------------------------------------------------------------- */

struct error *locate_ambiguous(const struct search *search, size_t count, const struct strbuf *list)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };

	quote_format(&text, "'%s': %zu functions have this name; give one of:",
		     search->location->symbol, count);
	strbuf_add(&text, list->text, list->length);
	return text.failed || list->failed ? out_of_memory(search) :
					     error_repeat(ERROR_FAILED, text.text);
}

static struct error *is_ambiguous(const struct search *search, const struct module *module,
				  const struct symtab *symtab, const struct symbol *symbol)
{
	_cleanup_(strbuf_free) struct strbuf list = { 0 };
	size_t count = 0;

	for (const struct symbol *s = symtab_first_named(symtab, symbol->name); s;
	     s = symtab_next_named(symtab, s)) {
		if (s->kind != SYMBOL_FUNCTION)
			continue;
		if (count++ < CANDIDATES_MAX)
			quote_format(&list, "\n  %zu. 0x%" PRIx64 "@%s", count, s->address,
				     locate_module_name(search, module));
	}
	if (count > CANDIDATES_MAX)
		quote_format(&list, "\n  ... and %zu more", count - CANDIDATES_MAX);
	return locate_ambiguous(search, count, &list);
}

/* Do several functions have this name, none of which goes first? */
static bool has_rival(const struct symtab *symtab, const struct symbol *symbol)
{
	for (const struct symbol *s = symtab_first_named(symtab, symbol->name); s;
	     s = symtab_next_named(symtab, s)) {
		if (s->kind == SYMBOL_FUNCTION && s->address != symbol->address &&
		    s->global == symbol->global && s->old_version == symbol->old_version)
			return true;
	}
	return false;
}

static struct error *locate_symbol(struct search *search, struct module *module,
				   const struct symtab *symtab, const struct symbol *symbol)
{
	uint64_t offset = search->location->number;
	uint64_t address = symbol->address + offset;
	struct error *error;

	if (symbol->kind == SYMBOL_IFUNC)
		return locate_ifunc(search, module, symtab, symbol);
	if (symbol->kind == SYMBOL_OBJECT)
		return error_new(ERROR_FAILED, "'%s': data of %s, not a function",
				 search->location->symbol, locate_module_name(search, module));
	if (has_rival(symtab, symbol))
		return is_ambiguous(search, module, symtab, symbol);
	if (offset && offset >= symbol->size)
		return error_new(ERROR_FAILED,
				 "'%s': outside %s, which is 0x%" PRIx64 " bytes long",
				 search->location->text, symbol->name, symbol->size);
	error = offset ? check_function(search, symtab, symbol, address) : NULL;
	if (error)
		return error;
	error = locate_add(search, module, symbol, address, name_with_offset(symbol->name, offset));
	if (error || offset || !search->want_function)
		return error;
	error = locate_clones(search, module, symtab, symbol);
	return error ? error : locate_inlined(search, module, symbol);
}

static struct error *not_found(const struct search *search, const struct module *only)
{
	const char *name = search->location->symbol;
	_cleanup_(strbuf_free) struct strbuf hint = { 0 };
	struct spell_near near = { .count = 0 };
	const struct module *unread = NULL;

	for (size_t i = 0; i < search->modules->count; i++) {
		const struct module *m = search->modules->items[i];

		if (only && m != only)
			continue;
		if (m->symtab)
			spell_offer_symbols(&near, name, m->symtab);
		else if (!unread)
			unread = m;
	}
	spell_print(&near, &hint);
	if (unread && unread->symtab_error)
		strbuf_printf(&hint, "; not searched: %s", error_text(unread->symtab_error));
	return error_new(ERROR_FAILED, "no function '%s' in %s%s%s", name,
			 locate_module_name(search, only ? only : search->modules->items[0]),
			 only ? "" : " or its libraries", hint.length ? hint.text : "");
}

/* Adds inlined copies of the function found. Several places of one name are the bodies of one
 * constructor. */
static struct error *add_copies(struct search *search)
{
	const struct place *place = &search->places.items[0];

	if (!search->want_function || search->location->number || !place->symbol)
		return NULL;
	return locate_inlined(search, place->module, place->symbol);
}

/* Searches one module, or all of them: a function wins over data of that name. */
static struct error *locate_name(struct search *search, struct module *only)
{
	struct module *data_module = NULL;
	const struct symbol *data = NULL;
	struct symtab *symtab;

	for (size_t i = 0; i < search->modules->count; i++) {
		struct module *module = search->modules->items[i];
		const struct symbol *symbol;

		if (only && module != only)
			continue;
		struct error *error = module_symtab(search->proc, module, &symtab);
		if (error && (only || error_kind(error) == ERROR_GONE))
			return error;
		error_free(error);
		if (error)
			continue;
		symbol = symtab_find(symtab, search->location->symbol);
		if (symbol && symbol->kind != SYMBOL_OBJECT)
			return locate_symbol(search, module, symtab, symbol);
		if (symbol && !data) {
			data = symbol;
			data_module = module;
		}
	}
	struct error *error = locate_readable(search, only);
	if (!error && !search->places.count)
		error = locate_unnamed(search, only);
	if (!error)
		error = search->places.count ? add_copies(search) :
					       locate_inlined(search, only, NULL);
	if (error || search->places.count)
		return error;
	if (data)
		return locate_symbol(search, data_module, data_module->symtab, data);
	error = locate_only_cold(search);
	return error ? error : not_found(search, only);
}

/* ---- globs ----------------------------------------------------------------------------------- */

/* The best match among the symbols at the address of symbol *at; moves *at past them. */
static const struct symbol *best_match(const struct symtab *symtab, const char *pattern, size_t *at,
				       char **ret_name)
{
	uint64_t address = symtab_get(symtab, *at)->address;
	const struct symbol *best = NULL;

	*ret_name = NULL;
	for (; *at < symtab_count(symtab) && symtab_get(symtab, *at)->address == address; ++*at) {
		const struct symbol *symbol = symtab_get(symtab, *at);
		char *name;

		if (symbol->kind != SYMBOL_FUNCTION || (best && !symbol_is_better(symbol, best)))
			continue;
		name = name_fit_glob(symbol->name, pattern);
		if (!name)
			continue;
		free(*ret_name);
		*ret_name = name;
		best = symbol;
	}
	return best;
}

struct short_name {
	char *text; /* owned */
	size_t place;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct short_name *)a)->text, ((const struct short_name *)b)->text);
}

/* Drops parameters from names, except of overloaded functions, which only parameters tell apart. */
static void shorten_names(struct places *places)
{
	VEC(struct short_name) shorts = { 0 };

	for (size_t i = 0; i < places->count; i++) {
		struct short_name one = { demangle_short(places->items[i].name), i };

		if (one.text && !vec_push(&shorts, one))
			free(one.text);
	}
	if (shorts.count)
		qsort(shorts.items, shorts.count, sizeof(*shorts.items), by_text);
	for (size_t i = 0, next; i < shorts.count; i = next) {
		for (next = i + 1; next < shorts.count &&
				   strcmp(shorts.items[i].text, shorts.items[next].text) == 0;)
			free(shorts.items[next++].text);
		char **name = &places->items[shorts.items[i].place].name;
		free(next == i + 1 ? *name : shorts.items[i].text);
		if (next == i + 1)
			*name = shorts.items[i].text;
	}
	vec_free(&shorts);
}

/* Functions of the module that the glob fits. */
static size_t count_matches(const struct search *search, struct module *module)
{
	struct symtab *symtab;
	size_t count = 0;
	_cleanup_error_ struct error *error = module_symtab(search->proc, module, &symtab);

	for (size_t i = 0; !error && i < symtab_count(symtab);) {
		char *name;

		count += best_match(symtab, search->location->symbol, &i, &name) != NULL;
		free(name);
	}
	return count;
}

/* Says which libraries have matches for a glob that the program has none for. */
static struct error *no_match(const struct search *search, const struct module *module)
{
	const char *pattern = search->location->symbol;
	_cleanup_(strbuf_free) struct strbuf hint = { 0 };
	size_t named = 0;

	for (size_t i = 1; i < search->modules->count && !search->location->module; i++) {
		struct module *other = search->modules->items[i];
		size_t count = named < LIBRARIES_MAX ? count_matches(search, other) : 0;

		if (!count)
			continue;
		quote_format(&hint, "%s%zu match%s in %s: '%s@%s'", named++ ? "; " : "", count,
			     count == 1 ? "es" : "", locate_module_name(search, other), pattern,
			     locate_module_name(search, other));
	}
	if (hint.length)
		return error_new(ERROR_FAILED, "no function of %s matches '%s' (%s)",
				 locate_module_name(search, module), pattern, hint.text);
	return error_new(ERROR_FAILED, "no function of %s matches '%s'",
			 locate_module_name(search, module), pattern);
}

static struct error *locate_glob(struct search *search, struct module *module)
{
	const char *pattern = search->location->symbol;
	struct symtab *symtab;
	struct error *error = module_symtab(search->proc, module, &symtab);
	const struct symbol *exact;

	if (error)
		return error;
	exact = symtab_find(symtab, pattern); /* operator[] looks like a glob but is a name */
	if (exact && exact->kind == SYMBOL_FUNCTION)
		return locate_symbol(search, module, symtab, exact);
	for (size_t i = 0; i < symtab_count(symtab);) {
		char *name;
		const struct symbol *symbol = best_match(symtab, pattern, &i, &name);

		if (!symbol)
			continue;
		error = locate_add(search, module, symbol, symbol->address, name);
		if (error)
			return error;
	}
	if (!error)
		error = locate_unnamed_glob(search, module);
	shorten_names(&search->places);
	if (error || search->places.count)
		return error;
	return no_match(search, module);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Finds the places in one module; NULL: in whichever has them. */
static struct error *locate_in(struct search *search, struct module *module)
{
	const struct location *location = search->location;

	if (location->provider)
		return locate_marker(search, module);
	if (location->file)
		return locate_line(search, module);
	if (!location->symbol)
		return locate_address(search, module);
	/* f(int*) and f(int) [clone .cold] look like globs but are names, pasted from a list */
	if (location->is_glob && strchr(location->symbol, '(')) {
		struct error *error = locate_readable(search, module);

		if (error || search->places.count)
			return error;
	}
	if (location->is_glob)
		return locate_glob(search, module ? module : search->modules->items[0]);
	return locate_name(search, module);
}

/* Appends the places in one more module. They are found apart: a glob's names are shortened, and
 * inlined copies searched, per module. */
static struct error *locate_more(struct search *search, struct module *module)
{
	struct search more = { .proc = search->proc,
			       .modules = search->modules,
			       .location = search->location,
			       .want_function = search->want_function };
	struct error *error = locate_in(&more, module);

	for (size_t i = 0; i < more.places.count && !error; i++) {
		if (vec_push(&search->places, more.places.items[i]))
			more.places.items[i].name = NULL;
		else
			error = out_of_memory(search);
	}
	places_free(&more.places);
	return error;
}

static bool has_place_in(const struct search *search, const struct module *module, bool copy)
{
	for (size_t i = 0; i < search->places.count; i++) {
		const struct module *m = search->places.items[i].module;

		if (m == module || (copy && module_is_copy(m, module)))
			return true;
	}
	return false;
}

/* All modules of that name are meant. Of different files, those that have the place. */
static struct error *locate_in_named(struct search *search)
{
	struct modules named = { 0 };
	struct error *error = modules_all_named(search->proc, search->modules,
						search->location->module, &named);
	_cleanup_error_ struct error *first = NULL;

	for (size_t i = 0; i < named.count && !error; i++) {
		error = locate_more(search, named.items[i]);
		if (!error || error_kind(error) == ERROR_GONE ||
		    has_place_in(search, named.items[i], true))
			continue;
		if (first)
			error_free(error);
		else
			first = error;
		error = NULL;
	}
	if (!error && !named.count)
		error = no_module(search);
	vec_free(&named);
	return error || search->places.count ? error : take_ptr(&first);
}

/* (H37) All loaded copies of the file are meant. An address means one. */
static struct error *locate_copies(struct search *search)
{
	bool one = !search->location->symbol && !search->location->file;
	struct error *error = NULL;

	for (size_t i = 0; i < search->modules->count && !one && !error; i++) {
		struct module *module = search->modules->items[i];

		if (has_place_in(search, module, true) && !has_place_in(search, module, false))
			error = locate_more(search, module);
	}
	return error;
}

/* libc:malloc, in the spelling of other tracers: no marker, but a function of a module. Replaces
 * the error about the marker, unless no module has that name. */
static struct error *locate_prefixed(struct search *search, struct error *unknown)
{
	const struct location *typed = search->location;
	struct location plain = { .text = typed->text,
				  .symbol = typed->symbol,
				  .module = typed->provider };
	struct error *error;

	if (!typed->provider || typed->module || !search->want_function ||
	    error_kind(unknown) != ERROR_FAILED ||
	    !modules_named(search->proc, search->modules, typed->provider))
		return unknown;
	plain.is_glob = strpbrk(typed->symbol, "*?[") != NULL; /* whoever has a provider has one */
	error_free(unknown);
	search->location = &plain;
	error = locate_in_named(search);
	search->location = typed;
	return error;
}

struct error *locate(struct proc *proc, struct modules *modules, const struct location *location,
		     bool want_function, struct places *ret_places)
{
	struct search search = { .proc = proc,
				 .modules = modules,
				 .location = location,
				 .want_function = want_function };
	struct error *error = NULL;

	if (modules->count == 0)
		return error_new(ERROR_FAILED, "'%s': no program is mapped in process %d",
				 location->text, (int)proc->pid);
	if (location->module)
		error = locate_in_named(&search);
	else if (!(error = locate_in(&search, NULL)))
		error = locate_copies(&search);
	else
		error = locate_prefixed(&search, error);
	if (error) {
		places_free(&search.places);
		return error;
	}
	*ret_places = search.places;
	return NULL;
}

void places_free(struct places *places)
{
	for (size_t i = 0; i < places->count; i++)
		free(places->items[i].name);
	vec_free(places);
}
