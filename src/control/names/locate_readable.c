/*
 * locate_readable.c - names as programmers write them: C++ and Rust without parameters or template
 * arguments; functions of which only clones are left (clone_name.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clone_name.h"
#include "control/base/cleanup.h"
#include "control/base/strbuf.h"
#include "control/modules/unnamed_functions.h"
#include "demangle.h"
#include "locate_state.h"

#define CANDIDATES_MAX 8

struct candidate {
	const struct symbol *symbol;
	char *name; /* owned: readable, without suffix, except what tells functions apart */
	const char *suffix; /* in the symbol's name */
};

struct candidates {
	struct candidate *items;
	size_t count, room;
	size_t cold; /* code that rarely runs, left out */
};

/* What the user typed. */
struct wanted {
	char *name; /* without suffix; owned */
	char *suffix; /* ".isra.0"; owned */
};

static void candidates_free(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++)
		free(candidates->items[i].name);
	vec_free(candidates);
}

static void wanted_free(struct wanted *wanted)
{
	free(wanted->name);
	free(wanted->suffix);
}

/* ---- collection ------------------------------------------------------------------------------ */

/* Virtual calls go through a thunk to the function. Its readable name fits too, but users mean the
 * function. */
static bool is_thunk(const char *mangled)
{
	return strncmp(mangled, "_ZT", 3) == 0 && mangled[3] && strchr("hvc", mangled[3]);
}

/* The readable name of the symbol without its suffix, if it is the one that was typed. */
static char *name_if_wanted(const char *symbol, size_t length, const struct wanted *wanted)
{
	_cleanup_free_ char *base = NULL, *readable = NULL;

	if (!demangle_is_mangled(symbol))
		return symbol[length] && strlen(wanted->name) == length &&
				       !strncmp(symbol, wanted->name, length) ?
			       strdup(wanted->name) :
			       NULL;
	if (!demangle_may_fit(symbol, wanted->name) ||
	    (is_thunk(symbol) && !strstr(wanted->name, "thunk")))
		return NULL;
	base = strndup(symbol, length);
	readable = base ? demangle(base) : NULL;
	if (!readable || (!demangle_fits(readable, wanted->name, false) &&
			  strcmp(base, wanted->name) != 0))
		return NULL;
	return take_ptr(&readable);
}

/* Adds what tells functions of one name apart: "f.lto_priv.0". */
static char *with_identity(char *name, const char *suffix)
{
	_cleanup_free_ char *identity = clone_suffix_identity(suffix), *bare = name;
	char *whole = NULL;

	if (!identity || asprintf(&whole, "%s%s", bare, identity) < 0)
		return NULL;
	return whole;
}

static bool consider(const struct symbol *symbol, const struct wanted *wanted,
		     struct candidates *candidates)
{
	size_t length = clone_name_length(symbol->name);
	const char *suffix = symbol->name + length;
	_cleanup_free_ char *name = NULL;

	if (symbol->kind != SYMBOL_FUNCTION ||
	    (*wanted->suffix && strcmp(suffix, wanted->suffix) != 0) ||
	    !(name = name_if_wanted(symbol->name, length, wanted)))
		return true;
	if (!*wanted->suffix && clone_suffix_is_cold(suffix)) {
		candidates->cold++;
		return true;
	}
	name = with_identity(take_ptr(&name), suffix);
	if (!name || !vec_push(candidates, (struct candidate){ symbol, name, suffix }))
		return false;
	name = NULL;
	return true;
}

/* Symbols of one address (constructors have two names) count once: the one without a suffix. */
static void drop_twins(struct candidates *candidates)
{
	size_t kept = 0;

	for (size_t i = 0; i < candidates->count; i++) {
		struct candidate *candidate = &candidates->items[i];
		bool is_twin = false;

		for (size_t j = 0; j < kept && !is_twin; j++) {
			struct candidate *other = &candidates->items[j];

			is_twin = other->symbol->address == candidate->symbol->address;
			if (is_twin && *other->suffix && !*candidate->suffix) {
				struct candidate swap = *other;

				*other = *candidate;
				*candidate = swap;
			}
		}
		if (is_twin)
			free(candidate->name);
		else
			candidates->items[kept++] = *candidate;
	}
	candidates->count = kept;
}

/* Leaves pieces out, if there is anything else. */
static void drop_pieces(const struct wanted *wanted, struct candidates *candidates)
{
	size_t whole = 0, kept = 0;

	for (size_t i = 0; i < candidates->count; i++)
		whole += !clone_suffix_is_piece(candidates->items[i].suffix);
	if (!whole || *wanted->suffix)
		return;
	for (size_t i = 0; i < candidates->count; i++) {
		if (clone_suffix_is_piece(candidates->items[i].suffix))
			free(candidates->items[i].name);
		else
			candidates->items[kept++] = candidates->items[i];
	}
	candidates->count = kept;
}

/* ---- choice ---------------------------------------------------------------------------------- */

static struct error *is_ambiguous(const struct search *search, const struct candidates *candidates)
{
	_cleanup_(strbuf_free) struct strbuf list = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < candidates->count; i++) {
		const char *name = candidates->items[i].name;
		bool is_known = false;

		for (size_t j = 0; j < i && !is_known; j++)
			is_known = strcmp(candidates->items[j].name, name) == 0;
		if (is_known)
			continue;
		if (count++ < CANDIDATES_MAX)
			quote_format(&list, "\n  %zu. '%s'", count, demangle_without_result(name));
	}
	if (count > CANDIDATES_MAX)
		quote_format(&list, "\n  ... and %zu more", count - CANDIDATES_MAX);
	return locate_ambiguous(search, count, &list);
}

/* The name of the place: as typed, and for clones beside the function with their suffix. */
static char *place_name(const struct search *search, const struct candidates *candidates,
			const struct candidate *candidate)
{
	char *name = NULL;

	if (candidates->count == 1 || !*candidate->suffix ||
	    search->location->symbol[clone_name_length(search->location->symbol)])
		return strdup(search->location->text);
	return asprintf(&name, "%s%s", search->location->symbol, candidate->suffix) < 0 ? NULL :
											  name;
}

/* Adds one function with its clones, or several of one readable name (the two bodies of a
 * constructor). */
static struct error *take(struct search *search, struct module *module,
			  const struct candidates *candidates)
{
	uint64_t offset = search->location->number;
	const struct candidate *first = &candidates->items[0];

	for (size_t i = 1; i < candidates->count; i++) {
		if (strcmp(candidates->items[i].name, first->name) != 0)
			return is_ambiguous(search, candidates);
	}
	for (size_t i = 0; i < candidates->count; i++) {
		const struct symbol *symbol = candidates->items[i].symbol;
		struct error *error;

		if (offset && (offset >= symbol->size || search->want_function))
			return error_new(ERROR_FAILED, "'%s': not %s %s", search->location->text,
					 search->want_function ? "the first instruction of" : "in",
					 first->name);
		error = locate_add(search, module, symbol, symbol->address + offset,
				   place_name(search, candidates, &candidates->items[i]));
		if (error)
			return error;
	}
	return NULL;
}

struct error *locate_only_cold(const struct search *search)
{
	if (!search->only_cold)
		return NULL;
	return error_new(ERROR_FAILED,
			 "'%s': only a piece that rarely runs is left of it, '%s.cold' (its callers "
			 "have the function inlined)",
			 search->location->text, search->location->symbol);
}

static struct error *choose(struct search *search, struct module *module,
			    const struct wanted *wanted, struct candidates *candidates)
{
	drop_twins(candidates);
	drop_pieces(wanted, candidates);
	if (candidates->count)
		return take(search, module, candidates);
	return NULL;
}

/* ---- search ---------------------------------------------------------------------------------- */

static struct error *parse_wanted(const struct search *search, struct wanted *ret_wanted)
{
	const char *typed = search->location->symbol;

	*ret_wanted = (struct wanted){ strndup(typed, clone_name_length(typed)),
				       clone_name_suffix(typed) };
	return ret_wanted->name && ret_wanted->suffix ? NULL :
							error_new(ERROR_FAILED, "out of memory");
}

static struct error *search_symtab(struct search *search, struct module *module,
				   const struct wanted *wanted, size_t *cold)
{
	_cleanup_(candidates_free) struct candidates candidates = { 0 };
	struct symtab *symtab;
	_cleanup_error_ struct error *unreadable = module_symtab(search->proc, module, &symtab);

	for (size_t i = 0; !unreadable && i < symtab_count(symtab); i++) {
		if (!consider(symtab_get(symtab, i), wanted, &candidates))
			return error_new(ERROR_FAILED, "out of memory");
	}
	*cold += candidates.cold;
	return choose(search, module, wanted, &candidates);
}

struct error *locate_readable_unnamed(struct search *search, struct module *module,
				      const struct unnamed_functions *unnamed)
{
	_cleanup_(candidates_free) struct candidates candidates = { 0 };
	_cleanup_(wanted_free) struct wanted wanted = { 0 };
	struct error *error = parse_wanted(search, &wanted);

	for (size_t i = 0; i < unnamed->count && !error; i++) {
		if (!consider(&unnamed->items[i], &wanted, &candidates))
			error = error_new(ERROR_FAILED, "out of memory");
	}
	return error ? error : choose(search, module, &wanted, &candidates);
}

struct error *locate_readable(struct search *search, struct module *only)
{
	_cleanup_(wanted_free) struct wanted wanted = { 0 };
	struct error *error = parse_wanted(search, &wanted);
	size_t cold = 0;

	for (size_t i = 0; i < search->modules->count && !error && !search->places.count; i++) {
		struct module *module = search->modules->items[i];

		if (!only || module == only)
			error = search_symtab(search, module, &wanted, &cold);
	}
	search->only_cold = !error && !search->places.count && cold;
	return error;
}

struct error *locate_clones(struct search *search, struct module *module,
			    const struct symtab *symtab, const struct symbol *function)
{
	size_t length = strlen(function->name);
	struct error *error = NULL;

	for (size_t i = 0; i < symtab_count(symtab) && !error; i++) {
		const struct symbol *symbol = symtab_get(symtab, i);
		const char *suffix = symbol->name + length;
		_cleanup_free_ char *identity = NULL;

		if (symbol->kind != SYMBOL_FUNCTION || symbol->address == function->address ||
		    strncmp(symbol->name, function->name, length) != 0 || *suffix != '.' ||
		    clone_name_length(symbol->name) != length || clone_suffix_is_piece(suffix))
			continue;
		identity = clone_suffix_identity(suffix);
		if (identity && !*identity) /* else another function of the same name */
			error = locate_add(search, module, symbol, symbol->address,
					   strdup(symbol->name));
	}
	return error;
}
