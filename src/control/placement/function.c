/*
 * function.c - modules and functions for the planner, each read once.
 */
#include <assert.h>
#include <stdlib.h>

#include "control/base/cleanup.h"
#include "branch_targets.h"
#include "planner.h"

struct error *function_view(struct planner *planner, struct module *module,
			    struct module_view **ret_view)
{
	for (size_t i = 0; i < planner->views.count; i++) {
		if (planner->views.items[i]->module == module) {
			*ret_view = planner->views.items[i];
			return NULL;
		}
	}
	_cleanup_free_ struct module_view *view = calloc(1, sizeof(*view));
	struct error *error = NULL;

	if (!view || !vec_reserve(&planner->views, 1))
		return error_new(ERROR_FAILED, "out of memory");
	view->module = module;
	view->symtab = module->symtab;
	if (!view->symtab)
		error = module_symtab(planner->proc, module, &view->symtab);
	if (!error)
		error = branch_cache_get(view->symtab, &view->branch_targets);
	if (error)
		return error;
	planner->views.items[planner->views.count++] = view;
	*ret_view = take_ptr(&view);
	return NULL;
}

void planner_forget_module(struct planner *planner, const struct module *module)
{
	for (size_t i = 0; i < planner->views.count; i++) {
		struct module_view *view = planner->views.items[i];

		if (view->module != module)
			continue;
		planner->body_view = NULL;
		branch_cache_put(view->branch_targets);
		free(view);
		planner->views.items[i] = planner->views.items[--planner->views.count];
		return;
	}
}

bool function_bounds(const struct module_view *view, const struct symbol *symbol, uint64_t address,
		     uint64_t *ret_start, uint64_t *ret_end)
{
	if (!symbol)
		symbol = symtab_at(view->symtab, address);
	if (symbol && symbol->kind != SYMBOL_OBJECT && symbol->size &&
	    address - symbol->address < symbol->size) {
		*ret_start = symbol->address;
		*ret_end = symbol->address + symbol->size;
		return true;
	}
	return symtab_fde(view->symtab, address, ret_start, ret_end);
}

struct error *function_body(struct planner *planner, const struct module_view *view,
			    const struct symbol *symbol, uint64_t address,
			    const struct body **ret_body)
{
	struct body *body = &planner->body;
	uint64_t start, end;

	if (!function_bounds(view, symbol, address, &start, &end))
		return error_new(ERROR_REFUSED,
				 "no function is known there (instruction boundaries are unknown)");
	assert(view->branch_targets);
	if (planner->body_view != view || body->start != start || body->end != end) {
		planner->body_view = NULL;
		if (!body_read(body, view->symtab, view->branch_targets, start, end))
			return error_new(ERROR_FAILED, "out of memory");
		planner->body_view = view;
	}
	*ret_body = body;
	return NULL;
}
